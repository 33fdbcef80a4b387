//! The dashboard in a real browser, and the report of a job.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};
use tests::{
    background::Background,
    browser::{Browser, installed},
    cluster::{Cluster, LIMIT},
    large_page::{Large, recording, served},
    plate, skip, wait,
};

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
fn connections_that_do_not_show_the_token_keep_no_browser_out() {
    let cluster = Cluster::up(1);
    let (serving, address) = dashboard(&cluster);
    let authority = address.trim_start_matches("http://").split('/').next();
    let authority = authority.expect("a host and port");
    let token = address.split("token=").nth(1).expect("a token");
    let begun = Instant::now();
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(authority).expect("the dashboard listens"))
        .collect();
    let said = answer(&address, &format!("GET /?token={token} HTTP/1.1\r\nHost: HERE\r\n\r\n"));
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    drop((silent, serving));
    cluster.down();
}

/// The page fits a narrow screen, and has complained of nothing.
fn is_sound_when_narrow(mut browser: Browser) {
    browser.width(380);
    let overflow = browser.value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(overflow, 0, "wider than a narrow screen");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

/// The page shows the plan of an order; it is carried out.
fn confirm(browser: &mut Browser, plan: &str) {
    browser.wait_for("document.querySelector('#plan').open", LIMIT);
    let told = browser.value("document.querySelector('#plan p').innerText");
    assert!(told.as_str().is_some_and(|told| told.starts_with(plan)), "{told}");
    browser.value("document.querySelector('#plan [value=go]').click()");
    browser.wait_for("!document.querySelector('#plan').open", LIMIT);
}

#[test]
fn the_page_shows_a_migration_within_a_second_and_its_button_migrates() {
    let Some(program) = installed() else {
        return skip::cannot_run("no Chromium in PATH");
    };
    let cluster = Cluster::up(4);
    let running = plate::iterating(&cluster, 2000);
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
    confirm(&mut browser, "Move rank 0 of job 1 (plate) from n0 to n3: ");
    browser.wait_for(&moved(0, "n3"), LIMIT);
    let ps = cluster.run(&["ps", "plate", "--json"]).stdout;
    let ps: serde_json::Value = serde_json::from_str(&ps).expect("a JSON document");
    assert_eq!(
        (&ps["ranks"][0]["node"], &ps["ranks"][1]["node"]),
        (&"n3".into(), &"n2".into())
    );

    browser.value("document.querySelector('form[data-act=checkpoint] button').click()");
    confirm(&mut browser, "Make a checkpoint of job 1: ");
    browser.wait_for(
        "document.querySelector('#state').innerText.startsWith('checkpoint at iteration')",
        LIMIT,
    );

    is_sound_when_narrow(browser);
    drop(serving);
    assert!(cluster.run(&["kill", "plate"]).status.success());
    running.end(LIMIT);
    cluster.down();
}

const UNDO: &str = "document.querySelector('#undo')";

/// Whether a rank of job 1 is in the box of a node.
fn is_on(rank: u32, node: &str) -> String {
    format!("Boolean(document.querySelector('.box[data-node={node}] [data-key=\"1.{rank}\"]'))")
}

/// The box of n0 is dragged out of the boxes, which drains it, and the drain is undone.
fn a_node_is_dragged_out_and_comes_back(browser: &mut Browser, cluster: &Cluster) {
    browser.drag(".box[data-node=n0] h3 span", Err((5.0, 5.0)));
    confirm(browser, "Move 1 rank off node n0: ");
    let drained = "Boolean(document.querySelector('.box.draining[data-node=n0]'))";
    browser.wait_for(drained, LIMIT);
    browser.wait_for(&format!("!{}", is_on(0, "n0")), LIMIT);
    let ps = cluster.json(&["ps", "plate"]);
    let nodes: Vec<&str> = ps["ranks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|rank| rank["node"].as_str())
        .collect();
    assert!(nodes.len() == 2 && nodes[1] == "n3" && nodes[0] != "n0", "{nodes:?}");

    browser.wait_for(&format!("!{UNDO}.hidden"), LIMIT);
    browser.value(&format!("{UNDO}.click()"));
    confirm(browser, "Let node n0 take ranks again, and move 1 rank back to it: ");
    browser.wait_for(&is_on(0, "n0"), LIMIT);
    browser.wait_for(&format!("!{drained}"), LIMIT);
    assert_eq!(cluster.node_state("n0"), "up");
}

/// On a screen as narrow as a phone's.
fn a_finger_moves_a_rank(browser: &mut Browser) {
    browser.width(380);
    browser.call(
        "Emulation.setTouchEmulationEnabled",
        serde_json::json!({ "enabled": true }),
    );
    browser.value("scrollTo(0, 0); 0");
    browser.drag_with_a_finger("[data-key=\"1.0\"]", ".box[data-node=n2]");
    confirm(browser, "Move rank 0 of job 1 (plate) from n0 to n2: ");
    browser.wait_for(&is_on(0, "n2"), LIMIT);
}

#[test]
fn ranks_and_nodes_are_dragged_jobs_grow_and_orders_are_undone_in_a_browser() {
    let Some(program) = installed() else {
        return skip::cannot_run("no Chromium in PATH");
    };
    let cluster = Cluster::up(4);
    let running = plate::iterating(&cluster, 2000);
    let (serving, address) = dashboard(&cluster);
    let mut browser = Browser::start(&program);
    browser.width(1000);
    browser.open(&address);
    let (tile, ranks) = ("[data-key=\"1.1\"]", "document.querySelectorAll('button.tile').length");
    browser.wait_for(&is_on(1, "n1"), LIMIT);

    browser.drag(tile, Ok(".box[data-node=n2]"));
    confirm(&mut browser, "Move rank 1 of job 1 (plate) from n1 to n2: ");
    browser.wait_for(&is_on(1, "n2"), LIMIT);
    browser.wait_for(&format!("!{UNDO}.hidden"), LIMIT);
    browser.value(&format!("{UNDO}.click()"));
    confirm(&mut browser, "Move rank 1 of job 1 (plate) from n2 to n1: ");
    browser.wait_for(&is_on(1, "n1"), LIMIT);

    browser.wait_for(&format!("!{UNDO}.hidden"), LIMIT);
    browser.value("document.querySelector('#cluster [data-act=expand]').click()");
    confirm(&mut browser, "Grow job 1 (plate) from 2 to 3 ranks");
    browser.wait_for(&format!("{ranks} === 3 && !{UNDO}.hidden"), LIMIT);
    browser.value(&format!("{UNDO}.click()"));
    confirm(&mut browser, "Shrink job 1 (plate) from 3 to 2 ranks");
    browser.wait_for(&format!("{ranks} === 2"), LIMIT);

    // With the keyboard: Enter takes the rank up, Enter on a node lets it down there.
    browser.value(&format!("document.querySelector('{tile}').focus()"));
    browser.press("Enter");
    browser.wait_for(
        &format!("document.querySelector('{tile}').ariaPressed === 'true'"),
        LIMIT,
    );
    // Two boxes further.
    for key in ["ArrowRight", "ArrowRight", "Enter"] {
        browser.press(key);
    }
    confirm(&mut browser, "Move rank 1 of job 1 (plate) from n1 to n3: ");
    browser.wait_for(&is_on(1, "n3"), LIMIT);

    a_node_is_dragged_out_and_comes_back(&mut browser, &cluster);
    is_readable(&mut browser);
    a_finger_moves_a_rank(&mut browser);
    is_sound_when_narrow(browser);
    drop(serving);
    assert!(cluster.run(&["kill", "plate"]).status.success());
    running.end(LIMIT);
    cluster.down();
}

#[test]
fn each_page_shows_the_job_that_was_chosen_on_it() {
    let Some(program) = installed() else {
        return skip::cannot_run("no Chromium in PATH");
    };
    let cluster = Cluster::up(2);
    let plate = plate::iterating(&cluster, 2000);
    let other = Background::start(&mut cluster.pcmctl(&["run", "-n", "1", "--name", "other", "--", "sleep", "600"]));
    let (serving, address) = dashboard(&cluster);
    let mut browser = Browser::start(&program);
    let choose = |browser: &mut Browser, job: u32| {
        let button = format!("document.querySelector('[data-act=show][data-job=\"{job}\"]')");
        browser.wait_for(&format!("Boolean({button})"), LIMIT);
        browser.value(&format!("{button}.click()"));
    };
    let shows = |name: &str| format!("document.querySelector('#story h1')?.innerText === '{name}'");
    browser.open(&address);
    choose(&mut browser, 1);
    browser.wait_for(&shows("Job 1 plate"), LIMIT);
    let first = browser.another_page(&address);
    browser.wait_for(&shows("Job 2 other"), LIMIT);
    choose(&mut browser, 1);
    browser.wait_for(&shows("Job 1 plate"), LIMIT);
    choose(&mut browser, 2);
    browser.wait_for(&shows("Job 2 other"), LIMIT);
    let second = browser.turn_to(first);
    // What it is told after the other page chose shows the same job as before.
    browser.value("window.told = []; const taken = take; take = (one) => { told.push(one.job); taken(one); }; 0");
    browser.wait_for("told.length >= 2", LIMIT);
    assert_eq!(
        browser.value("told.every((job) => job === 1) && told.length >= 2"),
        true
    );
    // A job that is not there leaves the cluster on the page.
    browser.value("location.hash = 'job=77'; 0");
    browser.wait_for("Boolean(document.querySelector('#story [role=alert]'))", LIMIT);
    assert_eq!(browser.value("document.querySelectorAll('.box').length"), 2);
    browser.turn_to(second);
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    drop((browser, serving));
    for (name, running) in [("plate", plate), ("other", other)] {
        assert!(cluster.run(&["kill", name]).status.success());
        running.end(LIMIT);
    }
    cluster.down();
}

/// Words on tiles and in boxes stand out from what is behind them, on a light and on a dark screen.
fn is_readable(browser: &mut Browser) {
    let contrast = "(() => {\
        const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)\
            .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)\
            .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0.05);\
        const ratio = (one, other) => Math.max(light(one) / light(other), light(other) / light(one));\
        const style = (what) => getComputedStyle(document.querySelector(what));\
        const back = style('body').backgroundColor;\
        return [ratio(style('.tile').color, style('.tile').backgroundColor), ratio(style('.box p').color, back),\
            ratio(style('.box h3').color, back)];\
    })()";
    for is_dark in [true, false] {
        browser.darkness(is_dark);
        let contrasts: Vec<f64> = serde_json::from_value(browser.value(contrast)).expect("numbers");
        assert!(
            contrasts.iter().all(|contrast| *contrast >= 4.5),
            "dark {is_dark}: {contrasts:?}"
        );
    }
}

/// The cluster is updated within a frame, and the story in the next; each is timed until its frame was painted.
const TIMED: &str = "window.times = { take: [], show: [] };\
const timed = (act, times) => {\
  const { port1, port2 } = new MessageChannel();\
  const since = performance.now();\
  port1.onmessage = () => times.push(performance.now() - since);\
  act();\
  port2.postMessage(0);\
};\
const [taken, seen] = [take, show];\
take = (told) => requestAnimationFrame(() => timed(() => taken(told), times.take));\
show = (html) => timed(() => seen(html), times.show);\
0";

/// Milliseconds from the request of the page until it was painted, several times; the browser itself starts with the
/// first.
fn painted_after(browser: &mut Browser, address: &str) -> Vec<f64> {
    let painted = |browser: &mut Browser| {
        browser.open(address);
        browser.wait_for("performance.getEntriesByName('shown').length === 1", LIMIT);
        let at = browser.value("performance.getEntriesByName('shown')[0].startTime");
        at.as_f64().expect("a time")
    };
    (0..4).map(|_| painted(browser)).collect()
}

/// Whatever else this machine does only adds to it.
fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::MAX, f64::min)
}

#[test]
fn a_thousand_ranks_on_two_hundred_nodes_are_painted_within_half_a_second_and_updated_within_30_ms() {
    let Some(program) = installed() else {
        return skip::cannot_run("no Chromium in PATH");
    };
    let address = served(Large::drawn());
    let mut browser = Browser::start(&program);
    let first = painted_after(&mut browser, &address);
    assert_eq!(browser.value("document.querySelectorAll('#story svg').length"), 4);
    assert_eq!(browser.value("document.querySelectorAll('button.tile').length"), 1000);
    browser.value(TIMED);
    browser.wait_for("times.show.length >= 15", LIMIT);
    let times = |browser: &mut Browser, of: &str| -> Vec<f64> {
        serde_json::from_value(browser.value(&format!("times.{of}"))).expect("numbers")
    };
    let (cluster, story) = (times(&mut browser, "take"), times(&mut browser, "show"));
    println!("first painted after {first:?} ms, the cluster updated in {cluster:?} ms, the story in {story:?} ms");
    assert!(least(&first) <= 500.0, "{first:?}");
    for mut times in [cluster, story] {
        times.sort_by(f64::total_cmp);
        assert!(times[times.len() / 2] <= 30.0, "{times:?}");
    }
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[test]
fn a_recording_of_a_thousand_ranks_is_painted_within_half_a_second() {
    let Some(program) = installed() else {
        return skip::cannot_run("no Chromium in PATH");
    };
    let cluster = Cluster::place();
    fs::write(cluster.files().join("large.json"), recording(1000, 200)).expect("a recording");
    let mut serving = Background::start(&mut cluster.pcmctl(&["dashboard", "--recording", "large.json"]));
    serving.wait_for("\n", LIMIT);
    let mut browser = Browser::start(&program);
    let first = painted_after(&mut browser, serving.stdout().trim());
    println!("a recording painted after {first:?} ms");
    assert_eq!(browser.value("document.querySelectorAll('#story svg').length"), 4);
    assert!(least(&first) <= 500.0, "{first:?}");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[test]
fn metrics_are_served_to_who_knows_the_token() {
    let cluster = Cluster::up(2);
    let running = plate::iterating(&cluster, 2000);
    let (serving, address) = dashboard(&cluster);
    let token = address.split("token=").nth(1).expect("a token");
    let said = answer(
        &address,
        &format!("GET /metrics HTTP/1.1\r\nHost: HERE\r\nAuthorization: Bearer {token}\r\n\r\n"),
    );
    assert!(
        said.starts_with("HTTP/1.1 200 ") && said.contains("text/plain; version=0.0.4"),
        "{said}"
    );
    let printed = cluster.run(&["metrics"]).stdout;
    for text in [said, printed] {
        let iterations = text
            .lines()
            .find_map(|line| line.strip_prefix(r#"pcm_job_iterations_total{job_id="1",job_name="plate"} "#));
        let iterations: u64 = iterations.expect("the job's iterations").parse().expect("a number");
        assert!(iterations > 5, "{text}");
        assert!(
            text.contains(r#"pcm_node_up{node="n1""#)
                && text.contains(r#"pcm_rank_sent_bytes_total{job_id="1",rank="1""#),
            "{text}"
        );
    }
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5";
    let open = answer(
        &address,
        &format!("GET /metrics HTTP/1.1\r\nHost: HERE\r\nAuthorization: Bearer {token}\r\n{accept}\r\n\r\n"),
    );
    let is_open = |text: &str| text.contains("\n# TYPE pcm_job_iterations counter\n") && text.ends_with("\n# EOF\n");
    assert!(
        open.contains("application/openmetrics-text; version=1.0.0") && is_open(&open),
        "{open}"
    );
    assert!(is_open(&cluster.run(&["metrics", "--openmetrics"]).stdout));
    let said = answer(
        &address,
        "GET /metrics HTTP/1.1\r\nHost: HERE\r\nAuthorization: Bearer x\r\n\r\n",
    );
    assert!(
        said.starts_with("HTTP/1.1 403 ") && said.ends_with("\r\n\r\n"),
        "{said}"
    );
    drop(serving);
    assert!(cluster.run(&["kill", "plate"]).status.success());
    running.end(LIMIT);
    cluster.down();
}

#[test]
fn a_report_is_written_of_a_job_that_has_ended() {
    let cluster = Cluster::up(3);
    let running = plate::iterating(&cluster, 2000);
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
    let summary = cluster.run(&["summary", "plate"]).stdout;
    for part in [
        "ended with code 137",
        "of rank time on 3 nodes",
        "1 migrate: held the program",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    cluster.down();
}
