//! A real headless Chromium, driven over its debugging pipe. Must never reach beyond loopback by itself.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::{Value, json};
use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// What one step of the browser may take; it starts in seconds on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(60);

/// Killed processes are gone far sooner.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: String,
    number: u64,
    complaints: Vec<String>,
    home: TempDir,
}

/// The browser of this machine.
pub fn installed() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&folders)
        .flat_map(|folder| ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name)));
    candidates.into_iter().find(|path| path.is_file())
}

impl Browser {
    /// Starts it with an empty page.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(program: &PathBuf) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let [into, out] = ["in", "out"].map(|name| home.path().join(name));
        for pipe in [&into, &out] {
            mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
        }
        // Chromium reads orders from descriptor 3 and answers on 4; a shell opens them without unsafe code.
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"exec "$0" "$@" 3<"$PIPE_IN" 4>"$PIPE_OUT""#])
            .arg(program);
        command.args([
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
        ]);
        command.arg(format!("--user-data-dir={}", home.path().join("profile").display()));
        command
            .env("PIPE_IN", &into)
            .env("PIPE_OUT", &out)
            .env("HOME", home.path())
            .env("TMPDIR", home.path());
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("a shell");
        let to = OpenOptions::new().write(true).open(&into).expect("the browser's input");
        let reader = File::open(&out).expect("the browser's output");
        let (sender, from) = channel();
        thread::spawn(move || {
            for message in BufReader::new(reader).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            to,
            from,
            session: String::new(),
            number: 0,
            complaints: Vec::new(),
            home,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        browser.attach(&target["targetId"]);
        browser
    }

    /// Sends an order and waits for its answer.
    ///
    /// # Panics
    /// When the browser refuses it or does not answer in time.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut order = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            order["sessionId"] = self.session.clone().into();
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser reads its orders");
        let end = Instant::now() + LIMIT;
        loop {
            match self.from.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(message) if message["id"] == self.number => {
                    assert!(message.get("error").is_none(), "{method}: {message}");
                    return message["result"].clone();
                }
                Ok(event) => self.hear(&event),
                Err(RecvTimeoutError::Timeout) => panic!("{method} was not answered within {LIMIT:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the browser ended during {method}"),
            }
        }
    }

    fn hear(&mut self, event: &Value) {
        let parameters = &event["params"];
        let is_complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => parameters["type"] == "error",
            Some("Log.entryAdded") => parameters["entry"]["level"] == "error",
            _ => false,
        };
        if is_complaint {
            self.complaints.push(parameters.to_string());
        }
    }

    /// Loads a page.
    pub fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
    }

    /// Makes the window this wide.
    pub fn width(&mut self, width: u32) {
        self.window(width, 900);
    }

    /// Makes the window this wide and high.
    pub fn window(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Shows pages as on a dark or a light screen.
    pub fn darkness(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Takes a finger from the middle of one element to the middle of another.
    pub fn drag_with_a_finger(&mut self, from: &str, to: &str) {
        let (from, to) = (self.middle_of(from), self.middle_of(to));
        let half = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
        for (kind, place) in [
            ("touchStart", Some(from)),
            ("touchMove", Some(half)),
            ("touchMove", Some(to)),
            ("touchEnd", None),
        ] {
            let points: Vec<Value> = place.iter().map(|(x, y)| json!({ "x": x, "y": y })).collect();
            self.call(
                "Input.dispatchTouchEvent",
                json!({ "type": kind, "touchPoints": points }),
            );
        }
    }

    /// Another page of the same browser; orders go there from now on.
    pub fn another_page(&mut self, address: &str) -> String {
        let before = std::mem::take(&mut self.session);
        let target = self.call("Target.createTarget", json!({ "url": address }));
        self.attach(&target["targetId"]);
        before
    }

    /// Orders go to this page from now on; the one before.
    pub fn turn_to(&mut self, page: String) -> String {
        std::mem::replace(&mut self.session, page)
    }

    fn attach(&mut self, target: &Value) {
        let attached = self.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        self.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            self.call(domain, json!({}));
        }
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        self.call("Runtime.evaluate", parameters)["result"]["value"].clone()
    }

    /// Presses the mouse in the middle of one element, moves it, and lets go in the middle of another, or `to` pixels
    /// from the corner of the window.
    pub fn drag(&mut self, from: &str, to: Result<&str, (f64, f64)>) {
        let from = self.middle_of(from);
        let to = to.map_or_else(|place| place, |element| self.middle_of(element));
        let half = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
        for (kind, (x, y)) in [
            ("mouseMoved", from),
            ("mousePressed", from),
            ("mouseMoved", half),
            ("mouseMoved", to),
            ("mouseReleased", to),
        ] {
            let buttons = i32::from(kind != "mouseReleased");
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Where an element comes to rest.
    fn middle_of(&mut self, element: &str) -> (f64, f64) {
        let expression = format!(
            "(async () => {{ const at = document.querySelector('{element}'); \
             at.scrollIntoView({{ block: 'nearest' }}); \
             await Promise.all(at.getAnimations().map((one) => one.finished.catch(() => 0))); \
             const place = at.getBoundingClientRect(); \
             return [place.x + place.width / 2, place.y + place.height / 2]; }})()"
        );
        let place = self.value(&expression);
        let number = |index: usize| place[index].as_f64().expect("the element is on the page");
        (number(0), number(1))
    }

    /// Presses a key where the focus is.
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let number = match key {
                "ArrowLeft" => 37,
                "ArrowUp" => 38,
                "ArrowRight" => 39,
                "ArrowDown" => 40,
                _ => 13,
            };
            let mut event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": number });
            if kind == "keyDown" && number == 13 {
                event["text"] = "\r".into();
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the window as PNG.
    ///
    /// # Panics
    /// When there is none.
    pub fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        from_base64(picture["data"].as_str().expect("a picture"))
    }

    /// Waits until an expression in the page is true.
    ///
    /// # Panics
    /// When it is not within `limit`.
    pub fn wait_for(&mut self, expression: &str, limit: Duration) {
        let end = Instant::now() + limit;
        while self.value(expression) != json!(true) {
            let text = "document.body ? document.body.innerText.slice(0, 2000) : ''";
            assert!(
                Instant::now() < end,
                "not {expression} within {limit:?}: {}",
                self.value(text)
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Errors the page has told its console so far.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(u32::from(letter - b'A')),
        b'a'..=b'z' => Some(u32::from(letter - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(letter - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let letters: Vec<u32> = text.bytes().filter_map(value).collect();
    let four = |four: &[u32]| {
        let bits = four.iter().fold(0, |bits, value| bits << 6 | value) << (6 * (4 - four.len()));
        (0..four.len() - 1).map(move |byte| (bits >> (16 - 8 * byte)) as u8)
    };
    letters
        .chunks(4)
        .filter(|chunk| chunk.len() > 1)
        .flat_map(four)
        .collect()
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        // Its helpers end a little later than itself, and write into its folder until then.
        let end = Instant::now() + ENDED_WITHIN;
        let is_there = || test_kill_process_group(group).is_ok() || fs::remove_dir_all(self.home.path()).is_err();
        while self.home.path().exists() && is_there() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
