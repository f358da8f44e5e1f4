//! An agent as real ones are: a bundle that is mounted, a runtime, a model that it calls.

use std::path::PathBuf;
use std::time::Duration;

use rollgate_backends::{Backend, Docker, DockerConfig, Exec, Mount, Reach, Spec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::engine::{NETWORK, Tree, config, engine, err, out, running, sh};

const AGENT: &str = r#"#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys, urllib.request
request = urllib.request.Request(
    os.environ["BASE_URL"] + "/v1/chat/completions",
    json.dumps({"messages": [{"role": "user", "content": sys.stdin.read()}]}).encode(),
    {"authorization": "Bearer " + os.environ["KEY"]},
)
answer = json.load(urllib.request.urlopen(request, timeout=30))
pathlib.Path(os.environ["HOME"], ".state").write_text("seen")
pathlib.Path("answer.txt").write_text(answer["text"])
subprocess.Popen(["sleep", "4271"], start_new_session=True)
print("agent of", pathlib.Path(sys.argv[0]).parent.name, "on", sys.platform)
"#;

/// A model that has one answer.
async fn model(listener: tokio::net::TcpListener) -> String {
    let (mut client, _) = listener.accept().await.unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"}]}") {
        let mut piece = [0; 4096];
        let count = client.read(&mut piece).await.unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&asked));
        asked.extend_from_slice(&piece[..count]);
    }
    let body = r#"{"text": "forty-two"}"#;
    let length = body.len();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    client.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8_lossy(&asked).into_owned()
}

/// An image with nothing but the shape of Debian; its programs are this machine's, mounted.
async fn image() -> Option<&'static str> {
    const NAME: &str = "rollgate-test-debian:1";
    let mut tree = Tree::default();
    for path in ["etc", "opt", "root", "sbin", "usr", "var"] {
        tree.folder(path, 0o755);
    }
    tree.folder("tmp", 0o1777);
    for name in ["bin", "lib", "lib64"] {
        tree.link(name, &format!("usr/{name}"));
    }
    let change = "ENV PATH=/usr/local/bin:/usr/bin:/bin";
    engine()?.import(NAME, tree.archive(), change).await;
    Some(NAME)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_agent_works_in_an_image_like_debian() {
    let Some(image) = image().await else { return };
    let bundle = tempfile::Builder::new().prefix("bundle").tempdir().unwrap();
    std::fs::write(bundle.path().join("agent.py"), AGENT).unwrap();
    let mounts = vec![
        Mount { from: "/usr".into(), to: "/usr".into() },
        Mount { from: bundle.path().to_owned(), to: "/opt/agents/one".into() },
    ];
    let rollgate: PathBuf = std::env::current_exe().unwrap();
    let config = config(&engine().unwrap().socket());
    let docker = Docker::new(DockerConfig { network: NETWORK.to_owned(), rollgate, ..config });
    let Reach::Address(address) = docker.reach().await.unwrap() else { panic!("no address") };
    let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(model(listener));

    let spec = Spec { mounts, image: Some(image.to_owned()), ..Spec::new("a", "agent") };
    let sandbox = docker.create(&spec).await.unwrap();
    let exec = Exec {
        argv: ["python3", "/opt/agents/one/agent.py"].map(str::to_owned).to_vec(),
        env: vec![("BASE_URL".into(), base_url), ("KEY".into(), "k-1".into())],
        stdin: Some(b"What is it?".to_vec()),
        ..sh("")
    };
    let exit = sandbox.exec(exec).await.unwrap();
    assert_eq!((exit.code, out(&exit).as_str()), (Some(0), "agent of one on linux"), "{exit:?}");
    assert_eq!(err(&exit), "");
    assert!(exit.took < Duration::from_secs(50));
    let asked = asked.await.unwrap();
    assert!(asked.contains("What is it?") && asked.to_lowercase().contains("bearer k-1"));
    let answer = sandbox.get(&format!("{}/answer.txt", sandbox.workdir()), 99).await.unwrap();
    assert_eq!(answer.unwrap(), b"forty-two");
    let state = sandbox.get(&format!("{}/.state", sandbox.home()), 99).await.unwrap();
    assert_eq!(state.unwrap(), b"seen");
    assert_eq!(running(sandbox.as_ref(), "sleep 4271").await, 0);

    // The program with the C library that it was built with: it runs here.
    let argv = vec![sandbox.rollgate().to_owned(), "--list".to_owned()];
    let exit = sandbox.exec(Exec { argv, ..sh("") }).await.unwrap();
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(out(&exit).contains("a_mounted_agent_works_in_an_image_like_debian: test"));
    sandbox.destroy().await.unwrap();
}
