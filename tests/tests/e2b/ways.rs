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

/// Row 8: an SDK's commands queue behind 100 streams or 200 connections.
fn all_at_once(http: HttpVersion, commands: usize) -> (Bed, u64) {
    let options = Options { builtin_sleep: true, ..Options::default() };
    let bed = Bed::with(options, |config| {
        config.http = http;
        // What ends at once keeps this machine busy for a while.
        config.keepalive = Duration::from_secs(20);
        config.request = Duration::from_secs(30);
    });
    let sandbox: std::sync::Arc<dyn Sandbox> = bed.create().into();
    let begun = Instant::now();
    bed.run(async {
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..commands {
            let sandbox = sandbox.clone();
            running.spawn(async move { sandbox.exec(command(&["sleep", "4"])).await });
        }
        while let Some(exit) = running.join_next().await {
            assert_eq!(exit.unwrap().unwrap().code, Some(0));
        }
    });
    let (connections, _) = bed.server.traffic();
    assert!(bed.server.peak() >= commands as u64, "{} ran at once", bed.server.peak());
    let took = begun.elapsed();
    println!("{commands} commands over {http:?} took {took:?}");
    drop(sandbox);
    (bed, connections)
}

#[test]
fn row08_many_streams_over_several_http2_connections() {
    let (_bed, connections) = all_at_once(HttpVersion::Http2, 250);
    assert!((3..=6).contains(&connections), "{connections} connections for 250 streams");
}

#[test]
fn row08_a_connection_for_each_command_over_http1() {
    let (bed, connections) = all_at_once(HttpVersion::Auto, 250);
    assert!((250..=260).contains(&connections), "{connections} connections for 250 commands");
    // They are used again.
    for _ in 0..10 {
        works(&bed);
    }
    assert!(bed.server.traffic().0 <= connections + 2, "{:?}", bed.server.traffic());
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
