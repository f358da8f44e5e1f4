//! Sandboxes from their making to their end.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rollgate_backends::{Backend, Docker, DockerConfig, Exec, Mount, Reach, Spec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::engine::{NETWORK, config, engine, err, eventually, out, sandbox, sh};
use super::proxy::Proxy;

#[tokio::test(flavor = "multi_thread")]
async fn destroy_kills_what_runs_and_twice_is_fine() {
    let Some(sandbox) = sandbox("destroyed").await else { return };
    let running = sandbox.exec(sh("sleep 1000"));
    let destroying = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        sandbox.destroy().await.unwrap();
    };
    let (exit, ()) = tokio::join!(running, destroying);
    let error = exit.unwrap_err().to_string();
    assert!(error.contains("was cut off"), "{error}");
    let (one, two) = tokio::join!(sandbox.destroy(), sandbox.destroy());
    one.and(two).unwrap();
    for error in [
        sandbox.exec(sh("true")).await.unwrap_err(),
        sandbox.put("/srv/f", b"").await.unwrap_err(),
        sandbox.get("/srv/f", 1).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("is destroyed"), "{error}");
    }
    assert_eq!(engine().unwrap().containers_of("destroyed").await, [""; 0]);
}

/// Row 26: more calls at once make an engine slower; row 4: starting is limited, running is not.
#[tokio::test(flavor = "multi_thread")]
async fn row_26_thirty_containers_come_and_go_eight_at_a_time() {
    let Some(engine) = engine() else { return };
    let proxy = Proxy::new(engine.socket());
    let docker = Arc::new(Docker::new(config(&proxy.socket())));
    let began = std::time::Instant::now();
    let tasks = (0..30).map(|number| {
        let docker = docker.clone();
        tokio::spawn(async move {
            let spec = Spec::new(format!("a/{number}"), "thirty");
            let sandbox = docker.create(&spec).await.unwrap();
            let path = format!("{}/f", sandbox.workdir());
            sandbox.put(&path, number.to_string().as_bytes()).await.unwrap();
            let exit = sandbox.exec(sh("setsid sleep 1000 & cat f")).await.unwrap();
            assert_eq!(out(&exit), number.to_string());
            sandbox.destroy().await.unwrap();
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    println!("30 sandboxes, 8 at a time: {:.1} s", began.elapsed().as_secs_f64());
    assert_eq!(engine.containers_of("thirty").await, [""; 0]);
    assert_eq!(proxy.asked("/containers/create"), 30);
    let most = proxy.most_at_once("/containers/create");
    assert!((2..=8).contains(&most), "{most} at once");
    assert_eq!(proxy.asked("/networks/create"), 0, "row 27: an engine has few address pools");
    let closed = || async { proxy.open_now() == 0 };
    eventually("row 47: no connection of a command stays open", closed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_and_the_program_are_there_and_cannot_be_changed() {
    let Some(engine) = engine() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("agent.sh"), "#!/bin/sh\necho agent").unwrap();
    let mount = Mount { from: dir.path().to_owned(), to: "/opt/agents/one".into() };
    let spec = Spec { mounts: vec![mount], ..Spec::new("a", "mounts") };
    let docker = Docker::new(config(&engine.socket()));
    let sandbox = docker.create(&spec).await.unwrap();
    let script = format!(
        "sh /opt/agents/one/agent.sh; echo x > /opt/agents/one/agent.sh; rm {0}; echo x > {0};
         cmp {0} /bin/busybox && echo program",
        sandbox.rollgate()
    );
    let exit = sandbox.exec(sh(&script)).await.unwrap();
    assert_eq!(out(&exit), "agent\nprogram", "{exit:?}");
    assert_eq!(err(&exit).matches("Read-only file system").count(), 2, "{exit:?}");
    assert_eq!(err(&exit).lines().count(), 3, "{exit:?}");
    let agent = sandbox.get("/opt/agents/one/agent.sh", 99).await.unwrap().unwrap();
    assert_eq!(agent, b"#!/bin/sh\necho agent");
    assert!(sandbox.put("/opt/agents/one/agent.sh", b"x").await.is_err());
    sandbox.destroy().await.unwrap();

    let mount = Mount { from: "/nowhere/at/all".into(), to: "/opt/x".into() };
    let spec = Spec { mounts: vec![mount], ..Spec::new("a", "mounts") };
    let error = docker.create(&spec).await.err().unwrap().to_string();
    assert!(error.contains("/nowhere/at/all") && error.contains("engine's machine"), "{error}");
    assert_eq!(engine.containers_of("mounts").await, [""; 0]);
}

/// The program of this machine needs a C library that the image has not.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_the_image_cannot_run_is_told_with_the_reason() {
    let Some(engine) = engine() else { return };
    let rollgate = std::env::current_exe().unwrap();
    let config = DockerConfig { rollgate, ..config(&engine.socket()) };
    let sandbox = Docker::new(config).create(&Spec::new("a", "loader")).await.unwrap();
    let argv = vec![sandbox.rollgate().to_owned(), "--version".to_owned()];
    let exec = Exec { argv, ..sh("") };
    let error = sandbox.exec(exec).await.unwrap_err().to_string();
    for part in ["loader /lib", "musl", "rollgate-test-busybox"] {
        assert!(error.contains(part), "{error}");
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_is_reached_where_reach_says() {
    let Some(engine) = engine() else { return };
    let on = |network: &str| {
        let network = network.to_owned();
        Docker::new(DockerConfig { network, ..config(&engine.socket()) })
    };
    assert_eq!(on("host").reach().await.unwrap(), Reach::Loopback);
    let error = on("none").reach().await.unwrap_err().to_string();
    assert!(error.contains("--internal"), "{error}");
    let error = on("no-such-net").reach().await.unwrap_err().to_string();
    assert!(error.contains("docker network create"), "{error}");
    let error = on("no-such-net").create(&Spec::new("a", "no-net")).await.err().unwrap();
    let error = error.to_string();
    assert!(error.contains("docker network create") && error.contains("it is removed"), "{error}");
    assert_eq!(engine.containers_of("no-net").await, [""; 0]);
    let bridged = on(NETWORK);
    let Reach::Address(address) = bridged.reach().await.unwrap() else { panic!("no address") };
    assert!(matches!(address, IpAddr::V4(address) if address.is_private()), "{address}");
    for (backend, address) in [(bridged, address), (on("host"), IpAddr::from([127, 0, 0, 1]))] {
        let listener = tokio::net::TcpListener::bind(SocketAddr::new(address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let _ = client.read(&mut [0; 1024]).await.unwrap();
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwell";
            client.write_all(answer.as_bytes()).await.unwrap();
        });
        let sandbox = backend.create(&Spec::new("a", "reach")).await.unwrap();
        let ask = format!("printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' | nc -w 10 {address} {port}");
        let exit = sandbox.exec(sh(&ask)).await.unwrap();
        assert!(out(&exit).ends_with("well"), "{exit:?}");
        answer.await.unwrap();
        sandbox.destroy().await.unwrap();
    }
}

/// Row 38: a sandbox that dies is never replaced by an empty one; whoever uses it is told.
/// Row 9: and whoever waits for its command is told at once.
#[tokio::test(flavor = "multi_thread")]
async fn row_38_a_sandbox_that_dies_under_its_commands_is_told() {
    let Some(sandbox) = sandbox("dies").await else { return };
    let client = engine().unwrap().client();
    let running = sandbox.exec(sh("sleep 1000"));
    let killing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let none = None::<bollard::query_parameters::KillContainerOptions>;
        client.kill_container(sandbox.id(), none).await.unwrap();
    };
    let began = std::time::Instant::now();
    let (exit, ()) = tokio::join!(running, killing);
    let error = exit.unwrap_err().to_string();
    assert!(error.contains("was cut off") && error.contains("died at"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20), "row 9");
    let error = sandbox.exec(sh("true")).await.unwrap_err().to_string();
    assert!(error.contains("cannot start `sh`") && error.contains("died at"), "{error}");
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_behind_tcp_is_used_like_any_other() {
    let Some(engine) = engine() else { return };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("tcp://{}", listener.local_addr().unwrap());
    let socket = engine.socket();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut engine = tokio::net::UnixStream::connect(&socket).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut engine).await;
            });
        }
    });
    let config = DockerConfig { host: Some(host.clone()), ..config(&engine.socket()) };
    let docker = Docker::new(config);
    assert!(docker.isolation().contains(&host));
    let sandbox = docker.create(&Spec::new("a", "tcp")).await.unwrap();
    let exec = Exec { stdin: Some(b"by tcp".to_vec()), ..sh("cat; cat /srv/f >&2; exit 4") };
    sandbox.put("/srv/f", b"file").await.unwrap();
    let exit = sandbox.exec(exec).await.unwrap();
    assert_eq!((exit.code, out(&exit).as_str(), err(&exit).as_str()), (Some(4), "by tcp", "file"));
    let late = Exec { timeout: Duration::from_secs(2), ..sh("sleep 1000") };
    assert!(sandbox.exec(late).await.unwrap().timed_out);
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_is_checked_and_the_isolation_is_told() {
    let Some(engine) = engine() else { return };
    let docker = Docker::new(config(&engine.socket()));
    assert!(docker.check().await.unwrap().contains('.'));
    let text = docker.isolation();
    for part in ["no network", "CHOWN", "1024 processes", "kernel is shared"] {
        assert!(text.contains(part), "{text}");
    }
    let missing = Docker::new(config(&engine.dir.join("no-such-socket")));
    let spec = Spec::new("a", "nobody");
    let error = missing.create(&spec).await.err().unwrap().to_string();
    assert!(error.contains("no Docker engine answers") && error.contains("start one"), "{error}");
}
