//! Files in and out of a container.

use rollgate_backends::{Backend, Docker, DockerConfig, Spec};

use super::engine::{config, engine, err, out, sandbox, sh};

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_out() {
    let Some(sandbox) = sandbox("files").await else { return };
    let script = format!("{}/a/b/run.sh", sandbox.workdir());
    sandbox.put(&script, b"#!/bin/sh\necho \xff").await.unwrap();
    let exit = sandbox.exec(rollgate_backends::Exec { argv: vec![script.clone()], ..sh("") });
    assert_eq!(exit.await.unwrap().stdout, b"\xff\n");
    assert_eq!(sandbox.get(&script, 16).await.unwrap().unwrap(), b"#!/bin/sh\necho \xff");
    assert!(sandbox.get(&script, 15).await.unwrap_err().to_string().contains("larger than 15"));
    sandbox.put(&script, b"").await.unwrap();
    assert_eq!(sandbox.get(&script, 0).await.unwrap().unwrap(), b"");

    let deep = format!("/srv/{}/f", ["folder-with-a-long-name"; 12].join("/"));
    let big: Vec<u8> = (0..5u32 << 20).map(|number| (number % 253) as u8).collect();
    sandbox.put(&deep, &big).await.unwrap();
    assert!(sandbox.get(&deep, big.len()).await.unwrap().unwrap() == big);
    assert!(sandbox.get(&deep, 1000).await.unwrap_err().to_string().contains("larger than 1000"));
    let owner = sandbox.exec(sh("stat -c %u:%g:%a /srv/folder-with-a-long-name /srv")).await;
    assert_eq!(out(&owner.unwrap()), "0:0:755\n0:0:777", "a folder that was there stays as it was");

    for missing in ["/none", "/none/deep", "/etc/passwd/x", "/rollgate/home/none"] {
        assert_eq!(sandbox.get(missing, 9).await.unwrap(), None, "{missing}");
    }
    sandbox.exec(sh("mkfifo /srv/pipe; mkdir /srv/dir")).await.unwrap();
    for odd in ["/srv/pipe", "/srv/dir", "/"] {
        assert!(sandbox.get(odd, 9).await.is_err(), "{odd}");
    }
    assert!(sandbox.put("/srv/dir", b"x").await.is_err());
    for bad in ["relative", "/srv/../etc/passwd", ""] {
        assert!(sandbox.put(bad, b"x").await.is_err(), "{bad}");
        assert!(sandbox.get(bad, 9).await.is_err(), "{bad}");
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_followed_inside_the_container_only() {
    let Some(sandbox) = sandbox("links").await else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "secret").unwrap();
    let outside = secret.path().to_str().unwrap();
    let script = format!(
        "echo in > /srv/f; ln -s f /srv/near; ln -s /srv/near /tmp/far; ln -s /tmp/self /tmp/self;
         ln -s {outside} /tmp/out; ln -s /srv /tmp/folder; ln -s / /tmp/up"
    );
    assert_eq!(err(&sandbox.exec(sh(&script)).await.unwrap()), "");
    for link in ["/srv/near", "/tmp/far", "/tmp/folder/f", "/tmp/up/srv/f"] {
        assert_eq!(sandbox.get(link, 9).await.unwrap().unwrap(), b"in\n", "{link}");
    }
    assert_eq!(sandbox.get("/tmp/out", 99).await.unwrap(), None, "there is no such file inside");
    assert!(sandbox.get("/tmp/self", 9).await.is_err());
    sandbox.put("/tmp/folder/new/g", b"through").await.unwrap();
    assert_eq!(sandbox.get("/srv/new/g", 9).await.unwrap().unwrap(), b"through");
    // A file takes the place of a link and leaves what that pointed to.
    sandbox.put("/tmp/far", b"own").await.unwrap();
    assert_eq!(sandbox.get("/srv/f", 9).await.unwrap().unwrap(), b"in\n");
    assert_eq!(std::fs::read(secret.path()).unwrap(), b"secret");
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_owns_its_folders_and_files() {
    let Some(engine) = engine() else { return };
    for (user, ids) in
        [("agent", "1234:1235"), ("agent:team", "1234:4321"), ("55:66", "55:66"), ("77", "77:0")]
    {
        let config = DockerConfig { user: Some(user.to_owned()), ..config(&engine.socket()) };
        let sandbox = Docker::new(config).create(&Spec::new("a", "users")).await.unwrap();
        sandbox.put(&format!("{}/new/f", sandbox.workdir()), b"x").await.unwrap();
        let script = "id -u; id -g; cd $HOME && echo h > h && cd /rollgate/work && echo g > new/g
            stat -c %u:%g . $HOME new new/f new/g; grep CapEff /proc/self/status | tr -d '\\t'";
        let exit = sandbox.exec(sh(script)).await.unwrap();
        let (uid, gid) = ids.split_once(':').unwrap();
        let owned = [ids; 5].join("\n");
        let expected = format!("{uid}\n{gid}\n{owned}\nCapEff:0000000000000000");
        assert_eq!((out(&exit), err(&exit)), (expected, String::new()), "{user}");
        sandbox.destroy().await.unwrap();
    }
    let config = DockerConfig { user: Some("nobody-here".into()), ..config(&engine.socket()) };
    let error = Docker::new(config).create(&Spec::new("a", "users")).await.err().unwrap();
    assert!(error.to_string().contains("no user `nobody-here`"), "{error}");
    assert_eq!(engine.containers_of("users").await, [""; 0]);
}
