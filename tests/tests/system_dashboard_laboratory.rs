//! The page of the laboratory of methods in a real browser: sorted, filtered, chosen by keys, in the dark and on a
//! phone.

use serde_json::json;
use std::{fs, path::PathBuf, process::Command};
use tests::{
    binaries::built,
    browser::{Browser, installed},
    cluster::LIMIT,
    limited,
    pieces::root,
    skip,
};

/// Makes the page of the small results that are kept for tests.
fn page(folder: &tempfile::TempDir) -> PathBuf {
    let results = folder.path().join("bench/results");
    fs::create_dir_all(&results).expect("a folder");
    let small = root().join("bench/tests/small_laboratory.csv");
    fs::copy(small, results.join("redistribute-rows.csv")).expect("a file of the test");
    let mut command = Command::new(built("pcm-bench"));
    let outcome = limited::run(command.arg("redistribute-page").current_dir(folder.path()), LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    results.join("redistribute.html")
}

const FIRST: &str = "[...document.querySelectorAll('#all tbody tr:not([hidden])')][0].cells";

#[test]
fn the_table_is_sorted_and_filtered_and_the_maps_are_chosen_by_keys() {
    let Some(program) = installed() else {
        return skip::cannot_run("no Chromium in PATH");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut browser = Browser::start(&program);
    browser.open(&format!("file://{}", page(&folder).display()));
    let shown = "document.querySelector('#shown').textContent";
    browser.wait_for(&format!("{shown} === '26 of 26 variants'"), LIMIT);

    let sort = |browser: &mut Browser, column: u32| {
        browser.value(&format!(
            "document.querySelectorAll('#all thead button')[{column}].focus()"
        ));
        browser.press("Enter");
        let head = format!("document.querySelectorAll('#all thead th')[{column}].getAttribute('aria-sort')");
        let method = browser.value(&format!("{FIRST}[2].textContent"));
        (browser.value(&head), method)
    };
    assert_eq!(sort(&mut browser, 3), (json!("ascending"), json!("merge-p2p-sync")));
    assert_eq!(browser.value(&format!("{FIRST}[3].textContent")), json!("8.8"));
    assert_eq!(
        sort(&mut browser, 3),
        (json!("descending"), json!("baseline-collective-sync"))
    );
    assert_eq!(browser.value(&format!("{FIRST}[3].textContent")), json!("80.9"));

    let set = |browser: &mut Browser, id: &str, how: &str| {
        browser.value(&format!(
            "(() => {{ const it = document.querySelector('#{id}'); {how}; \
             it.dispatchEvent(new Event('input')); }})()"
        ));
    };
    set(&mut browser, "change", "it.value = '1 to 2'");
    assert_eq!(browser.value(shown), json!("13 of 26 variants"));
    set(&mut browser, "method", "it.value = 'collective-S'");
    assert_eq!(browser.value(shown), json!("3 of 26 variants"));
    set(&mut browser, "method", "it.value = ''");
    set(&mut browser, "good", "it.checked = true");
    let good = browser.value("[...document.querySelectorAll('#all tbody tr:not([hidden])')].length");
    let verdicts = "[...document.querySelectorAll('#all tbody tr:not([hidden])')]\
                    .every((line) => /^(best|as good)/.test(line.cells[5].textContent))";
    assert_eq!(browser.value(verdicts), json!(true));
    assert!((1..13).contains(&good.as_u64().expect("a number")), "{good}");

    let seen = |metric: &str| format!("document.querySelector('.by.{metric}').offsetParent !== null");
    assert_eq!(browser.value(&seen("total")), json!(false));
    browser.value("document.querySelector('[name=by]:checked').focus()");
    browser.press("ArrowRight");
    browser.wait_for(&seen("total"), LIMIT);
    assert_eq!(browser.value(&seen("pause")), json!(false));
    assert_eq!(browser.complaints(), &[] as &[String]);
}

/// Ratio of the lighter to the darker of text and ground, as in the guidelines for accessibility.
const CONTRASTS: &str = "(() => {
    const light = (color) => {
        const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        const [red, green, blue] = color.match(/\\d+/g).map(Number).map(part);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ratios = [...document.querySelectorAll('.key span, body')].map((one) => {
        const style = getComputedStyle(one);
        const [text, ground] = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
        return (text + 0.05) / (ground + 0.05);
    });
    return Math.min(...ratios);
})()";

#[test]
fn the_page_is_read_in_light_and_dark_and_on_a_phone() {
    let Some(program) = installed() else {
        return skip::cannot_run("no Chromium in PATH");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let address = format!("file://{}", page(&folder).display());
    let mut browser = Browser::start(&program);
    for is_dark in [false, true] {
        browser.darkness(is_dark);
        browser.open(&address);
        browser.wait_for("document.querySelector('#shown').textContent !== ''", LIMIT);
        let contrast = browser.value(CONTRASTS).as_f64().expect("a number");
        assert!(contrast >= 4.5, "dark: {is_dark}, {contrast}");
    }
    browser.width(360);
    browser.open(&address);
    browser.wait_for("document.querySelector('#shown').textContent !== ''", LIMIT);
    let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.value(overflow), json!(0), "only tables scroll sideways");
}
