//! The dashboard in a real browser, and the report of a job.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};
use tests::{
    background::Background,
    binaries::built,
    browser::{Browser, installed},
    cluster::{Cluster, LIMIT},
    skip, wait,
};

fn heat2d(cluster: &Cluster) -> Background {
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--nodes", "n0,n1", "--name", "plate", "--"]);
    command.arg(built("heat2d-c"));
    command.args([
        "--rows",
        "64",
        "--cols",
        "64",
        "--iterations",
        "1000000",
        "--sleep-us",
        "2000",
    ]);
    let running = Background::start(&mut command);
    wait::until("the job runs", LIMIT, || {
        let outcome = cluster.run(&["ps", "plate", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&outcome.stdout).ok()?;
        let is_counting = document["ranks"]
            .as_array()?
            .iter()
            .all(|rank| rank["iteration"].as_u64() > Some(5));
        (document["state"] == "running" && is_counting).then_some(())
    });
    running
}

fn dashboard(cluster: &Cluster) -> (Background, String) {
    let mut serving = Background::start(&mut cluster.pcmctl(&["dashboard"]));
    serving.wait_for("\n", LIMIT);
    let address = serving.stdout().trim().to_owned();
    assert!(address.starts_with("http://127.0.0.1:"), "{address}");
    (serving, address)
}

/// Everything that is answered to a request.
fn answer(address: &str, request: &str) -> String {
    let authority = address
        .trim_start_matches("http://")
        .split('/')
        .next()
        .expect("a host and port");
    let mut stream = TcpStream::connect(authority).expect("the dashboard listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let request = request.replace("HERE", authority);
    stream.write_all(request.as_bytes()).expect("the request is taken");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer to its end");
    said
}

#[test]
fn who_does_not_know_the_token_gets_nothing() {
    let cluster = Cluster::up(1);
    let (serving, address) = dashboard(&cluster);
    for path in [
        "/",
        "/?token=0123456789abcdef0123456789abcdef",
        "/stream",
        "/stream?token=",
    ] {
        let said = answer(&address, &format!("GET {path} HTTP/1.1\r\nHost: HERE\r\n\r\n"));
        assert!(
            said.starts_with("HTTP/1.1 403 ") && said.ends_with("\r\n\r\n"),
            "{path}: {said}"
        );
    }
    let order = r#"{"act":"drain","node":"n0"}"#;
    let head = format!("Host: HERE\r\nOrigin: http://HERE\r\nContent-Length: {}", order.len());
    let said = answer(
        &address,
        &format!("POST /act HTTP/1.1\r\n{head}\r\nX-Pcm-Token: x\r\n\r\n{order}"),
    );
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
    let token = address.split("token=").nth(1).expect("a token");
    let foreign = format!(
        "Host: HERE\r\nOrigin: http://evil.test\r\nContent-Length: {}",
        order.len()
    );
    let said = answer(
        &address,
        &format!("POST /act HTTP/1.1\r\n{foreign}\r\nX-Pcm-Token: {token}\r\n\r\n{order}"),
    );
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
    drop(serving);
    cluster.down();
}

#[test]
fn the_page_shows_a_migration_within_a_second_and_its_button_migrates() {
    let Some(program) = installed() else {
        return skip::cannot_run("no Chromium in PATH");
    };
    let cluster = Cluster::up(4);
    let running = heat2d(&cluster);
    let (serving, address) = dashboard(&cluster);
    let mut browser = Browser::start(&program);
    browser.open(&address);
    browser.wait_for("document.querySelectorAll('#story svg').length >= 3", LIMIT);
    let moved =
        |rank: u32, to: &str| format!("document.querySelector('#story').innerText.includes('{rank} n{rank} to {to}')");

    let outcome = cluster.run(&["migrate", "plate", "--rank", "1", "--to", "n2"]);
    assert!(outcome.status.success(), "{outcome:?}");
    let since = Instant::now();
    browser.wait_for(&moved(1, "n2"), LIMIT);
    let took = since.elapsed();
    assert!(took < Duration::from_secs(1), "a migration was shown after {took:?}");

    browser.value(
        "(() => { const form = document.querySelector('form[data-act=migrate]');\
         form.elements.rank.value = '0'; form.elements.to.value = 'n3'; form.querySelector('button').click(); })()",
    );
    browser.wait_for(&moved(0, "n3"), LIMIT);
    let ps = cluster.run(&["ps", "plate", "--json"]).stdout;
    let ps: serde_json::Value = serde_json::from_str(&ps).expect("a JSON document");
    assert_eq!(
        (&ps["ranks"][0]["node"], &ps["ranks"][1]["node"]),
        (&"n3".into(), &"n2".into())
    );

    browser.width(380);
    let overflow = browser.value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(overflow, 0, "wider than a narrow screen");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    drop((browser, serving));
    assert!(cluster.run(&["kill", "plate"]).status.success());
    running.end(LIMIT);
    cluster.down();
}

#[test]
fn a_report_is_written_of_a_job_that_has_ended() {
    let cluster = Cluster::up(3);
    let running = heat2d(&cluster);
    assert!(
        cluster
            .run(&["migrate", "plate", "--rank", "1", "--to", "n2"])
            .status
            .success()
    );
    wait::until("samples were taken", LIMIT, || {
        let outcome = cluster.run(&["report", "plate", "--out", "early.html"]);
        assert!(outcome.status.success(), "{outcome:?}");
        let html = fs::read_to_string(cluster.files().join("early.html")).ok()?;
        (!html.contains("No samples")).then_some(())
    });
    assert!(cluster.run(&["kill", "plate"]).status.success());
    running.end(LIMIT);
    let outcome = cluster.run(&["report", "plate", "--out", "report.html"]);
    assert!(outcome.status.success(), "{outcome:?}");
    let html = fs::read_to_string(cluster.files().join("report.html")).expect("the report");
    for part in [
        "iterations/s",
        "rank 1 on n2",
        "migrate at",
        "ended with code 137",
        "to rank",
    ] {
        assert!(html.contains(part), "{part}");
    }
    cluster.down();
}
