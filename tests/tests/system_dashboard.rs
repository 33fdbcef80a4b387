//! The dashboard in a real browser, and the report of a job.

use pcm_proto::{
    control::{NodeState, NodeStatus},
    event::{Event, EventKind, Moved, Reconfigured},
    fabric::FabricReport,
    ids::{Bytes, Epoch, JobId, NodeName, Rank},
    job::{JobState, JobStatus, RankStatus},
    layout::Mode,
    series::{Sample, Series, Traffic},
};
use pcm_view::dashboard::{RunningJob, cluster as cluster_html};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tests::{
    background::Background,
    browser::{Browser, installed},
    cluster::{Cluster, LIMIT},
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
    let is_on = |rank: u32, node: &str| {
        format!("Boolean(document.querySelector('.box[data-node={node}] [data-key=\"1.{rank}\"]'))")
    };
    let (tile, ranks) = ("[data-key=\"1.1\"]", "document.querySelectorAll('button.tile').length");
    browser.wait_for(&is_on(1, "n1"), LIMIT);
    let undo = "document.querySelector('#undo')";

    browser.drag(tile, Ok(".box[data-node=n2]"));
    confirm(&mut browser, "Move rank 1 of job 1 (plate) from n1 to n2: ");
    browser.wait_for(&is_on(1, "n2"), LIMIT);
    browser.wait_for(&format!("!{undo}.hidden"), LIMIT);
    browser.value(&format!("{undo}.click()"));
    confirm(&mut browser, "Move rank 1 of job 1 (plate) from n2 to n1: ");
    browser.wait_for(&is_on(1, "n1"), LIMIT);

    browser.wait_for(&format!("!{undo}.hidden"), LIMIT);
    browser.value("document.querySelector('#cluster [data-act=expand]').click()");
    confirm(&mut browser, "Grow job 1 (plate) from 2 to 3 ranks");
    browser.wait_for(&format!("{ranks} === 3 && !{undo}.hidden"), LIMIT);
    browser.value(&format!("{undo}.click()"));
    confirm(&mut browser, "Shrink job 1 (plate) from 3 to 2 ranks");
    browser.wait_for(&format!("{ranks} === 2"), LIMIT);

    // With the keyboard: Enter takes the rank up, Enter on a node lets it down there.
    browser.value(&format!("document.querySelector('{tile}').focus()"));
    browser.press("Enter");
    browser.wait_for(
        &format!("document.querySelector('{tile}').ariaPressed === 'true'"),
        LIMIT,
    );
    browser.value("document.querySelector('.box[data-node=n3]').focus()");
    browser.press("Enter");
    confirm(&mut browser, "Move rank 1 of job 1 (plate) from n1 to n3: ");
    browser.wait_for(&is_on(1, "n3"), LIMIT);

    browser.drag(".box[data-node=n0] h3 span", Err((5.0, 5.0)));
    confirm(&mut browser, "Move all 1 ranks off node n0: ");
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

    is_sound_when_narrow(browser);
    drop(serving);
    assert!(cluster.run(&["kill", "plate"]).status.success());
    running.end(LIMIT);
    cluster.down();
}

/// What `report --recording` writes of a job with so many ranks and nodes that has run for a while and goes on.
fn recording(ranks: u32, nodes: u32) -> String {
    let node = |number: u32| NodeName::new(format!("n{}", number % nodes)).expect("a name");
    let now_us = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time after 1970")
        .as_micros() as u64;
    let begin_us = now_us - 512_000_000;
    let event = |second: u64, kind: EventKind| Event {
        time_us: begin_us + second * 1_000_000,
        job: Some(JobId(1)),
        epoch: Epoch(second),
        node: node(0),
        kind,
    };
    let accepted = EventKind::JobAccepted {
        name: "large".to_owned(),
        placement: (0..ranks).map(node).collect(),
        why: String::new(),
    };
    let changes = (1..100).map(|number| event(u64::from(number) * 5, reconfigured(number, ranks, node)));
    let events: Vec<Event> = std::iter::once(event(0, accepted)).chain(changes).collect();
    let sample = |second: u64| Sample {
        time_us: begin_us + second * 1_000_000,
        iteration: second * 100 + second % 7,
        ranks,
        loads: (0..nodes)
            .map(|number| (node(number), f64::from((number * 7 + second as u32) % 20) / 10.0))
            .collect(),
    };
    let series = Series {
        samples: (0..512).map(sample).collect(),
        thinning: 1,
        taken: 512,
        uses: Vec::new(),
        traffic: (0..ranks)
            .flat_map(|from| [1, 31, ranks - 1].map(|step| (from, (from + step) % ranks)))
            .map(|(from, to)| Traffic {
                from,
                to,
                messages: 9,
                bytes: u64::from(from + to),
            })
            .collect(),
    };
    let status = large(ranks, begin_us);
    serde_json::json!({ "status": status, "series": series, "events": events }).to_string()
}

/// A job of so many ranks that goes on.
fn large(ranks: u32, begin_us: u64) -> JobStatus {
    JobStatus {
        job: JobId(1),
        name: "large".to_owned(),
        state: JobState::Running,
        epoch: Epoch(100),
        size: ranks,
        nodes: Vec::new(),
        started_us: begin_us,
        end: None,
        coordinator: NodeName::new("n0").expect("a name"),
        reign: 0,
        spares: Vec::new(),
    }
}

/// One of many changes, each of which moves four ranks to the next node.
fn reconfigured(number: u32, ranks: u32, node: impl Fn(u32) -> NodeName) -> EventKind {
    let moved = |rank: u32| Moved {
        rank: Rank(rank),
        from: Some(node(rank)),
        to: Some(node(rank + 1)),
    };
    EventKind::Reconfigured(Box::new(Reconfigured {
        plan: "migrate".to_owned(),
        cause: "simulated".to_owned(),
        ranks_before: ranks,
        ranks_after: ranks,
        moved: (0..4).map(|place| moved((number * 4 + place) % ranks)).collect(),
        bytes_moved: Bytes(1 << 20),
        bytes_ahead: Bytes(0),
        pause_ms: 12.5,
        mode: Mode::Live,
        method: None,
        method_reason: None,
        placement: None,
        total_ms: 50.0,
        phases_ms: vec![("preparing".to_owned(), 40.0), ("moving".to_owned(), 10.0)],
    }))
}

/// The boxes of 200 nodes with 1,000 ranks are drawn, and drawn again with four ranks elsewhere.
fn draw_a_large_cluster(browser: &mut Browser) {
    let draw = |browser: &mut Browser, moved: u32| {
        let html = serde_json::to_string(&large_cluster(1000, 200, moved)).expect("a text");
        let timed = format!(
            "new Promise((done) => {{ const html = {html}; const since = performance.now(); showCluster(html);\
             requestAnimationFrame(() => setTimeout(() => done(performance.now() - since))); }})"
        );
        browser.value(&timed).as_f64().expect("a time")
    };
    let first = draw(browser, 0);
    let again: Vec<f64> = (1..10).map(|moved| draw(browser, moved)).collect();
    println!("a large cluster drawn in {first} ms, again in {again:?} ms");
    assert_eq!(browser.value("document.querySelectorAll('button.tile').length"), 1000);
    let least = again.iter().copied().fold(f64::MAX, f64::min);
    assert!(first < 500.0 && least < 100.0, "{first} {again:?}");
}

fn large_cluster(ranks: u32, nodes: u32, moved: u32) -> String {
    let name = |number: u32| NodeName::new(format!("n{}", number % nodes)).expect("a name");
    let node = |number: u32| NodeStatus {
        name: name(number),
        address: String::new(),
        site: String::new(),
        cpus: (0..8).collect(),
        state: NodeState::Up,
        speed: 1.0,
        load_by_others: 0.0,
        ranks: 5,
        free_memory: 1 << 30,
        daemon_pid: 1,
        fabric: FabricReport::default(),
        link: None,
        ends: None,
    };
    let rank = |number: u32| {
        let is_moved = number / 4 == moved;
        serde_json::json!({
            "rank": number, "process": number, "node": name(number + u32::from(is_moved)), "pid": 1,
            "iteration": 100, "iterations_here": 100, "useful_ms": 1.0, "wait_ms": 0.1, "memory": 0,
            "iterations_declared": null, "restored": 0, "call": "-", "call_since_ms": 0.0, "peer": null, "tag": null,
            "bytes": null, "sent": 0, "received": 0, "registered": 1 << 20, "constant": 0
        })
    };
    let ranks: Vec<RankStatus> = (0..ranks)
        .map(|number| serde_json::from_value(rank(number)).expect("a rank"))
        .collect();
    let nodes: Vec<NodeStatus> = (0..nodes).map(node).collect();
    let status = large(ranks.len() as u32, 0);
    cluster_html(&nodes, &[RunningJob { status, ranks }], Some(JobId(1)))
}

#[test]
fn a_thousand_ranks_on_two_hundred_nodes_are_shown_within_a_second_and_updated_within_a_tenth() {
    let Some(program) = installed() else {
        return skip::cannot_run("no Chromium in PATH");
    };
    let cluster = Cluster::place();
    fs::write(cluster.files().join("large.json"), recording(1000, 200)).expect("a recording");
    let mut serving = Background::start(&mut cluster.pcmctl(&["dashboard", "--recording", "large.json"]));
    serving.wait_for("\n", LIMIT);
    let mut browser = Browser::start(&program);
    browser.open(serving.stdout().trim());
    browser.wait_for("performance.getEntriesByName('shown').length === 1", LIMIT);
    let first = browser.value("performance.getEntriesByName('shown')[0].startTime");
    // The time runs on, so the page is told something new again and again. Each update is timed until it is painted.
    browser.value(
        "window.times = []; const show_as_before = show;\
         window.show = (html) => { const since = performance.now(); show_as_before(html);\
         requestAnimationFrame(() => setTimeout(() => times.push(performance.now() - since))); }; 0",
    );
    browser.wait_for("times.length >= 9", LIMIT);
    let times: Vec<f64> = serde_json::from_value(browser.value("times")).expect("numbers");
    println!("first shown after {first} ms, updated in {times:?} ms");
    assert_eq!(browser.value("document.querySelectorAll('#story svg').length"), 4);
    assert!(first.as_f64().expect("a number") < 1000.0, "{first} ms");
    // Whatever else this machine does only adds to it.
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    assert!(least < 100.0, "{times:?}");
    draw_a_large_cluster(&mut browser);
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
