//! Servers differ: paths, routes, versions of HTTP.

use std::time::{Duration, Instant};

use rollgate_backends::e2b::{ApiVersion, HttpVersion, Route};
use rollgate_backends::{Backend as _, E2bConfig, Reach, Sandbox};
use rollgate_tests::e2b::{Does, On, Options, Versions};

use crate::bed::{Bed, command, fails, shell, spec};

fn works(bed: &Bed) {
    let sandbox = bed.create();
    assert_eq!(bed.sh(&*sandbox, "echo here").stdout, b"here\n");
    bed.run(sandbox.destroy()).unwrap();
    assert!(bed.server.sandboxes().is_empty());
}

#[test]
fn new_paths_first_then_old_ones_which_is_remembered() {
    for versions in [Versions::Old, Versions::OldNotAllowed, Versions::New, Versions::Both] {
        let bed = Bed::with(Options { versions, ..Options::default() }, |_| ());
        works(&bed);
        let (_, before) = bed.server.traffic();
        let sandbox = bed.create();
        let (_, after) = bed.server.traffic();
        assert_eq!(after - before, 2, "{versions:?}: one create, one setup, no path tried anew");
        assert_eq!(bed.run(bed.backend.sweep()).unwrap(), 0, "{versions:?}");
        drop(sandbox);
    }
    let old = Options { versions: Versions::Old, ..Options::default() };
    let bed = Bed::with(old, |config| config.api_version = ApiVersion::V2);
    fails(bed.try_create(&spec()), &["404"]);
    let new = Options { versions: Versions::New, ..Options::default() };
    let bed = Bed::with(new, |config| config.api_version = ApiVersion::V1);
    fails(bed.try_create(&spec()), &["cannot create"]);
}

#[test]
fn a_missing_template_does_not_count_as_an_old_server() {
    let bed = Bed::new();
    let message = "template 'x' not found".to_owned();
    let does = Does::Answer { status: 404, message, headers: Vec::new() };
    bed.server.once(On::Create, does.clone());
    bed.server.once(On::Create, does);
    fails(bed.try_create(&spec()), &["template 'x' not found"]);
    works(&bed);
}

#[test]
fn sandboxes_are_found_by_headers_host_and_path() {
    let by_host = |config: &mut E2bConfig| {
        config.route = Route::Host;
        config.sandbox_host = Some("{port}-{id}.cluster.test".to_owned());
    };
    works(&Bed::with(Options::default(), by_host));
    let by_path = |config: &mut E2bConfig| {
        config.route = Route::Path;
        let url = config.sandbox_url.take().unwrap();
        config.sandbox_url = Some(format!("{url}/sandbox/{{id}}/{{port}}"));
    };
    works(&Bed::with(Options::default(), by_path));
    let bed = Bed::new();
    works(&bed);
    assert_eq!(bed.run(bed.backend.reach()).unwrap(), Reach::Public);
}

/// Row 8: an SDK's commands queue behind 100 streams or 200 connections. Here all run at once, which
/// the server counts; connections that it took.
fn all_at_once(bed: &Bed, commands: u64) -> u64 {
    let sandbox: std::sync::Arc<dyn Sandbox> = bed.create().into();
    let running: Vec<_> = (0..commands)
        .map(|_| {
            let sandbox = sandbox.clone();
            bed.spawn(async move { sandbox.exec(command(&["sleep", "600"])).await })
        })
        .collect();
    bed.until("all run at once", || bed.server.peak() >= commands);
    let (connections, _) = bed.server.traffic();
    bed.run(sandbox.destroy()).unwrap();
    for running in running {
        fails(bed.run(running).unwrap(), &["it is destroyed"]);
    }
    connections
}

fn busy(http: HttpVersion) -> Bed {
    let options = Options { builtin_sleep: true, ..Options::default() };
    Bed::with(options, |config| {
        config.http = http;
        config.keepalive = Duration::from_secs(20);
        config.request = Duration::from_secs(20);
    })
}

#[test]
fn row08_many_streams_over_several_http2_connections() {
    let connections = all_at_once(&busy(HttpVersion::Http2), 350);
    assert!((4..=6).contains(&connections), "{connections} connections for 350 streams");
}

#[test]
fn row08_row47_a_connection_for_each_command_over_http1() {
    let bed = busy(HttpVersion::Auto);
    let connections = all_at_once(&bed, 350);
    assert!((350..=352).contains(&connections), "{connections} connections for 350 commands");
    // Otherwise the same few are used again.
    for _ in 0..10 {
        works(&bed);
    }
    assert!(bed.server.traffic().0 <= connections + 3, "{:?}", bed.server.traffic());
}

#[test]
fn a_template_that_is_too_small_is_refused() {
    let bed = Bed::new();
    let mut spec = spec();
    spec.resources.cpus = Some(2.0);
    spec.resources.memory_mib = Some(512);
    let sandbox = bed.try_create(&spec).unwrap();
    bed.run(sandbox.destroy()).unwrap();
    spec.resources.memory_mib = Some(4096);
    fails(bed.try_create(&spec), &["512 MiB of memory instead of 4096", "was removed"]);
    spec.resources.pids = Some(100);
    fails(bed.try_create(&spec), &["`pids`"]);
    assert!(bed.server.sandboxes().is_empty());
}

#[test]
fn a_server_that_is_not_there_is_said_in_time() {
    let port = rollgate_tests::real::free_port();
    let begun = Instant::now();
    let bed = Bed::with(Options::default(), |config| {
        config.api_url = Some(format!("http://127.0.0.1:{port}"));
        config.start = Duration::from_secs(1);
    });
    fails(bed.try_create(&spec()), &["cannot connect to 127.0.0.1", "refused"]);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let wrong = rollgate_backends::E2b::new(E2bConfig::new(""));
    fails(wrong, &["`api_key`"]);
    // A wrong key is no bad moment.
    let bed = Bed::new();
    let does = Does::Answer { status: 401, message: "invalid".to_owned(), headers: Vec::new() };
    bed.server.once(On::Create, does);
    fails(bed.try_create(&spec()), &["401", "`api_key`"]);
    let sandbox = bed.create();
    assert_eq!(bed.exec(&*sandbox, shell("exit 3")).unwrap().code, Some(3));
}

#[test]
fn certificates_are_checked_and_http2_is_agreed_on() {
    let tls = || Options { tls: true, ..Options::default() };
    let bed = Bed::with(tls(), |config| config.tls_verify = false);
    works(&bed);
    let sandbox = bed.create();
    bed.sh(&*sandbox, "true");
    // Over HTTP/1.1 a command would have taken another.
    assert_eq!(bed.server.traffic().0, 1, "one connection for everything");
    let bed = Bed::with(tls(), |config| {
        config.tls_verify = false;
        config.http = HttpVersion::Http1;
    });
    works(&bed);

    // A stranger's certificate, then the same with its issuer known.
    let bed = Bed::with(tls(), |config| config.start = Duration::from_secs(1));
    fails(bed.try_create(&spec()), &["TLS", "SSL_CERT_FILE"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("authority.pem");
    std::fs::write(&file, bed.server.certificate()).unwrap();
    let mut load = std::process::Command::new(env!("CARGO_BIN_EXE_e2b_load"));
    load.args([bed.server.url.as_str(), "3", "0", "1", "2"]).env("SSL_CERT_FILE", file);
    let output = load.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"finished\":3"));
}
