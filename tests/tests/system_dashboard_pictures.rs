//! The pictures of the dashboard in docs, taken of real jobs in a real browser.

use std::{
    fs,
    path::{Path, PathBuf},
};
use tests::{
    background::Background,
    binaries::built,
    browser::{Browser, installed},
    cluster::{Cluster, LIMIT},
    large_page::{Large, served},
};

/// A page of docs with all of them loads fast.
const BYTES_MAX: u64 = 150_000;

const PICTURES: [&str; 6] = ["cluster", "plan", "dark", "phone", "job", "large"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures")
}

fn write(browser: &mut Browser, name: &str) {
    fs::create_dir_all(folder()).expect("a folder");
    fs::write(folder().join(format!("{name}.png")), browser.picture()).expect("a picture");
}

/// A job that computes for as long as the pictures take.
fn job(cluster: &Cluster, name: &str, ranks: &str, nodes: &str) -> Background {
    let mut command = cluster.pcmctl(&["run", "-n", ranks, "--nodes", nodes, "--name", name, "--"]);
    command.arg(built("heat2d-c"));
    command.args([
        "--rows",
        "960",
        "--cols",
        "512",
        "--iterations",
        "20000",
        "--sleep-us",
        "20000",
    ]);
    Background::start(&mut command)
}

#[test]
#[ignore = "writes into docs: cargo xtask pictures"]
fn pictures_are_taken() {
    let program = installed().expect("Chromium is there");
    let cluster = Cluster::up(6);
    let heat = job(&cluster, "heat", "6", "n0,n1,n2");
    let plate = job(&cluster, "plate", "4", "n3,n4");
    let mut serving = Background::start(&mut cluster.pcmctl(&["dashboard"]));
    serving.wait_for("\n", LIMIT);
    let mut browser = Browser::start(&program);
    browser.darkness(false);
    browser.window(1040, 620);
    browser.open(&format!("{}#job=1", serving.stdout().trim()));
    browser.wait_for("document.querySelectorAll('button.tile').length === 10", LIMIT);
    for order in [
        ["migrate", "heat", "--rank", "5", "--to", "n5"].as_slice(),
        &["expand", "heat", "--to", "8"],
        &["migrate", "plate", "--rank", "2", "--to", "n5"],
        &["checkpoint", "heat"],
    ] {
        let outcome = cluster.run(order);
        assert!(outcome.status.success(), "{outcome:?}");
    }
    let is_story = "document.querySelector('#story').innerText.includes('expand')";
    browser.wait_for(
        &format!("{is_story} && document.querySelectorAll('button.tile').length === 12"),
        LIMIT,
    );
    browser.wait_for("document.querySelectorAll('#story svg').length >= 4", LIMIT);
    browser.value("document.querySelector('#steer').open = false; scrollTo(0, 0); 0");
    write(&mut browser, "cluster");
    browser.darkness(true);
    write(&mut browser, "dark");
    browser.darkness(false);
    browser.drag("[data-key=\"1.5\"]", Ok(".box[data-node=n1]"));
    browser.wait_for("document.querySelector('#plan').open", LIMIT);
    write(&mut browser, "plan");
    browser.value("document.querySelector('#plan [value=no]').click()");
    browser.window(1040, 900);
    browser.value("scrollTo(0, document.querySelector('#story').offsetTop - 40); 0");
    write(&mut browser, "job");
    browser.window(380, 760);
    browser.value("scrollTo(0, 0); 0");
    write(&mut browser, "phone");
    browser.window(1040, 900);
    browser.open(&served(Large::drawn()));
    browser.wait_for("document.querySelectorAll('button.tile').length === 1000", LIMIT);
    browser.value("document.querySelector('#steer').open = false; scrollTo(0, 0); 0");
    write(&mut browser, "large");
    drop((browser, serving));
    for (name, running) in [("heat", heat), ("plate", plate)] {
        assert!(cluster.run(&["kill", name]).status.success());
        running.end(LIMIT);
    }
    cluster.down();
}

#[test]
fn the_pictures_in_docs_are_small_and_each_is_on_the_page_about_the_dashboard() {
    let page = fs::read_to_string(folder().join("../watching.md")).expect("the page");
    for name in PICTURES {
        let path = folder().join(format!("{name}.png"));
        let bytes = fs::metadata(&path).expect("a picture").len();
        assert!(bytes <= BYTES_MAX, "{name}: {bytes}");
        assert!(page.contains(&format!("(pictures/{name}.png)")), "{name}");
    }
}
