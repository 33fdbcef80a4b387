//! What iperf3 carries over the loopback, where it is installed: what bulk transfers are held against.

use pcm_bench::Samples;
use serde_json::Value;
use std::{
    net::TcpListener,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Seconds of one run of iperf3.
const IPERF_SECONDS: &str = "2";

/// How long its server may take until it listens.
const IPERF_STARTS_WITHIN: Duration = Duration::from_secs(5);

/// Name of its series: bytes for each second of both ends' processor time, which is what one core carries.
pub(super) const IPERF: &str = "iperf3, of both ends' processor time";

/// What iperf3 moves over the loopback with 128 KiB a call.
pub(super) fn iperf(rounds: usize) -> Result<Samples, String> {
    let mut samples = Samples::new(IPERF, "GB/s");
    for _ in 0..rounds {
        samples.push(iperf_once()?);
    }
    Ok(samples)
}

fn iperf_once() -> Result<f64, String> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = port.map_err(|error| error.to_string())?.port().to_string();
    let mut server = Command::new("iperf3")
        .args(["--server", "--one-off", "--bind", "127.0.0.1", "--port", &port])
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("{error}; install it with `apt-get install iperf3`"))?;
    let begun = Instant::now();
    let measured = loop {
        let client = Command::new("iperf3")
            .args([
                "--client",
                "127.0.0.1",
                "--port",
                &port,
                "--time",
                IPERF_SECONDS,
                "--json",
            ])
            .output()
            .map_err(|error| error.to_string());
        let rate = client.and_then(|output| rate(&output.stdout));
        if rate.is_ok() || begun.elapsed() > IPERF_STARTS_WITHIN {
            break rate;
        }
        thread::sleep(Duration::from_millis(20));
    };
    // It ends by itself after one client; one that never came is ended here.
    let _ = server.kill();
    let _ = server.wait();
    measured
}

/// GB for each second of processor time, from what iperf3 says of its rate and of both ends' use.
fn rate(json: &[u8]) -> Result<f64, String> {
    let said: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let number = |pointer: &str| said.pointer(pointer).and_then(Value::as_f64);
    let rate = number("/end/sum_received/bits_per_second");
    let used = number("/end/cpu_utilization_percent/host_total")
        .zip(number("/end/cpu_utilization_percent/remote_total"))
        .map(|(here, there)| (here + there) / 100.0);
    match (rate, used) {
        (Some(rate), Some(used)) if used > 0.0 => Ok(rate / 8e9 / used),
        _ => Err(said["error"].as_str().unwrap_or("it did not say its rate").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf3_says_is_a_rate_for_one_core() {
        let json = br#"{"end":{"sum_received":{"bits_per_second":16e9},
            "cpu_utilization_percent":{"host_total":60.0,"remote_total":40.0}}}"#;
        assert_eq!(rate(json), Ok(2.0));
        assert!(rate(br#"{"error":"nobody listens"}"#).is_err_and(|why| why.contains("nobody")));
    }
}
