//! Bad configuration names the key and the line.

use rollgate_pipeline::record::{HistoryMode, Retention};

use super::*;

fn settle(text: &str, environment: &[(&str, &str)]) -> Result<Settled, String> {
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    raw::parse("node.toml", text, environment)
        .and_then(|raw| settled::settle("node.toml", raw))
        .map_err(|error| error.to_string())
}

const GOOD: &str = "[model]\ndir = \"m\"\n[[engines]]\nurl = \"http://127.0.0.1:1/\"\n";

#[test]
fn defaults_are_settled_and_printable() {
    let settled = settle(GOOD, &[]).unwrap();
    assert_eq!(settled.agents.listen.port(), 8400);
    assert_eq!(settled.engines[0].url, "http://127.0.0.1:1");
    assert!(settled.shards.count >= 1);
    let printed = toml::to_string(&settled).unwrap();
    let again = settle(&printed, &[]).unwrap();
    assert_eq!(again, settled, "the settled form is a configuration that says the same");
}

#[test]
fn l23_an_engines_url_may_end_in_v1_and_in_slashes() {
    for end in ["", "/", "/v1", "/v1/", "//v1//"] {
        let text = GOOD.replace(":1/", &format!(":1{end}"));
        assert_eq!(settle(&text, &[]).unwrap().engines[0].url, "http://127.0.0.1:1", "{end:?}");
    }
    let below = GOOD.replace(":1/", ":1/router/v1/");
    assert_eq!(settle(&below, &[]).unwrap().engines[0].url, "http://127.0.0.1:1/router");
}

#[test]
fn every_shard_has_room_at_every_engine() {
    let error = settle(&format!("{GOOD}max_in_flight = 3\n[shards]\ncount = 4\n"), &[]);
    let error = error.unwrap_err();
    assert!(error.contains("engines.max_in_flight") && error.contains("shards.count"), "{error}");
    let many = settle(&format!("{GOOD}[shards]\ncount = 400\n"), &[]).unwrap();
    assert_eq!(many.engines[0].max_in_flight, 400);
}

#[test]
fn what_sessions_get_is_set_in_two_tables() {
    let text = "[model]\ndir = \"m\"\nretention = \"template\"\n[[engines]]\nurl = \"http://e\"\n\
                [sessions]\nhistory = \"faithful\"\norphan_grace_ms = 7\n\
                rules = [{ name = \"r\", action = \"strip\", pattern = \"x\" }]\n[limits]\npark_ms = 9\n";
    let settled = settle(text, &[]).unwrap();
    let defaults = settled.session_defaults();
    assert_eq!(
        (defaults.history, defaults.retention),
        (HistoryMode::Faithful, Retention::Template)
    );
    assert_eq!((defaults.orphan_grace_ms, defaults.rules[0].name.as_str()), (7, "r"));
    assert_eq!(settled.limits.park_ms, 9);
    let printed = toml::to_string(&settled).unwrap();
    assert_eq!(settle(&printed, &[]).unwrap(), settled);
}

#[test]
fn the_environment_overrides_by_one_rule() {
    let settled =
        settle(GOOD, &[("ROLLGATE_SHARDS__COUNT", "3"), ("ROLLGATE_NODE__ID", "n7")]).unwrap();
    assert_eq!((settled.shards.count, settled.node.id.as_str()), (3, "n7"));
    let error = settle(GOOD, &[("ROLLGATE_SHARDS__CONUT", "3")]).unwrap_err();
    assert!(error.contains("ROLLGATE_SHARDS__CONUT") && error.contains("`count`"), "{error}");
}

/// The message must hold each of these.
fn check_bad(text: &str, parts: &[&str]) {
    let error = settle(text, &[]).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{error:?} lacks {part:?}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    check_bad("[node]\nid = \"a\"\n[shards]\nconut = 3\n", &["node.toml:4", "`conut`", "`count`?"]);
    check_bad("[modle]\n", &["node.toml:1", "did you mean `model`"]);
    check_bad("[shards]\ncount = \"x\"\n", &["node.toml:2"]);
    check_bad("[shards]\ndriver = \"urnig\"\n", &["node.toml:2", "did you mean `uring`"]);
    check_bad("[sessions]\nhistory = \"stiky\"\n", &["node.toml:2", "did you mean `sticky`"]);
    check_bad("[model]\nretention = \"kep\"\n", &["node.toml:2", "did you mean `keep`"]);
    let rule = "[sessions]\n\n[[sessions.rules]]\nname = \"r\"\naction = \"strip_\"\n";
    check_bad(rule, &["node.toml:5", "did you mean `strip`"]);
    check_bad(&rule.replace("strip_", "strip\"\nactoin = \""), &["node.toml:6", "`action`?"]);
    let nameless = format!("{GOOD}[[sessions.rules]]\nname = \"\"\naction = \"strip\"\n");
    check_bad(&nameless, &["sessions.rules", "has no name"]);
    let broken = nameless.replace("name = \"\"", "name = \"r\"\npattern = \"(\"");
    check_bad(&broken, &["sessions.rules", "\"r\"", "not a regular expression"]);
    check_bad(&broken, &["node.toml:7"]);
    let scenes = "[[sessions.scenes]]\nname = \"s\"\nscene = \"main\"\n[sessions.scenes.when]\n";
    check_bad(
        &format!("{scenes}tols = [\"bash\"]\n"),
        &["node.toml:5", "`tols`", "did you mean `tool`"],
    );
    check_bad(&scenes.replace("\"main\"", "\"mian\""), &["node.toml:3", "did you mean `main`"]);
    let bad = format!("{scenes}min_tools = 1\nheader = {{ a = \"b\",\n  x-kind = \"(\" }}\n");
    check_bad(&bad, &["node.toml:7", "sessions.scenes", "\"s\"", "`header.x-kind`", "unclosed"]);
    check_bad(&format!("{scenes}system = \"(\"\n"), &["node.toml:5", "`system`"]);
    check_bad(&scenes.replace("\"main\"", "\"off\""), &["node.toml:2", "no rule of that name"]);
    let twice = scenes.replace("[sessions.scenes.when]\n", "");
    check_bad(&format!("{GOOD}{twice}{twice}"), &["sessions.scenes", "stands twice"]);
    check_bad("a = [", &["node.toml:1"]);
    check_bad("[[engines]]\nurl = \"http://e\"\n", &["model.dir"]);
    check_bad("[model]\ndir = \"m\"\n", &["engines"]);
    check_bad("[model]\ndir = \"m\"\n[[engines]]\nurl = \"e:1\"\n", &["engines.url", "http://"]);
    check_bad(&format!("[node]\nid = \"a b\"\n{GOOD}"), &["node.id"]);
    check_bad(
        &format!("[agents]\nlisten = \"8400\"\n{GOOD}"),
        &["agents.listen", "127.0.0.1:8400"],
    );
}

#[test]
fn the_examples_in_the_docs_are_good() {
    let docs = include_str!("../../../../docs/configuration.md");
    let blocks: Vec<&str> =
        docs.split("```toml\n").skip(1).filter_map(|b| b.split("```").next()).collect();
    assert!(blocks.len() >= 2, "{blocks:?}");
    for block in blocks {
        let text =
            if block.contains("[model]") { block.to_owned() } else { format!("{GOOD}{block}") };
        settle(&text, &[]).unwrap_or_else(|error| panic!("{error}: {block}"));
    }
}

#[test]
fn sandboxes_have_sections_of_their_own_and_serve_a_run_alone() {
    let pool = "[limits]\nconnect_ms = 9\n[pool]\nwarm = 3\nidle_s = 9\n";
    let text = &format!("{pool}[backends.local]\ncpus = 0.5\noffer_cpus = 4\n");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    std::fs::write(&path, text).unwrap();
    let places = load_places(&path, std::iter::empty()).unwrap();
    assert_eq!((places.pool.warm, places.pool.idle_s, places.pool.refill), (3, 9, 4));
    assert_eq!(places.limits.connect_ms, 9);
    assert_eq!((places.backends.local.cpus, places.backends.local.offer_cpus), (0.5, 4.0));
    let whole = settle(&format!("{GOOD}\n{text}"), &[]).unwrap();
    assert_eq!((&whole.pool, &whole.backends), (&places.pool, &places.backends));
    for (text, what) in [
        ("[backends.local]\ncpu = 1\n", "did you mean `cpus`?"),
        ("[pool]\nrefill = 0\n", "pool.refill"),
        ("[backends.local]\noffer_cpus = -1.0\n", "backends.local.offer_cpus"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = load_places(&path, std::iter::empty()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
