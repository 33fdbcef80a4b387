//! Bulk transfers beside raw TCP on the same path: sender and receiver have a thread each, and the processor time of
//! both is counted, because a busy machine does not distort it.

use super::setting::{DEADLINE, Effort, Problem, key, loopback, processor_time};
use pcm_bench::Samples;
use pcm_fabric::{
    Limits,
    bulk::{BulkService as _, Protection, TcpBulk},
};
use pcm_proto::handshake::{Identity, Role};
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Bytes per call of the raw stream, as iperf3 uses.
const RAW_BLOCK: usize = 128 << 10;

/// Rates of one way, by the clock and by processor time.
struct Rates {
    by_clock: Samples,
    by_processor: Samples,
}

impl Rates {
    fn new(name: &str) -> Self {
        Self {
            by_clock: Samples::new(format!("bulk, {name}"), "GB/s"),
            by_processor: Samples::new(format!("bulk, {name}, of both ends' processor time"), "GB/s"),
        }
    }

    fn note(&mut self, bytes: usize, begun: (Instant, Duration)) {
        let gigabytes = bytes as f64 / 1e9;
        self.by_clock.push(gigabytes / begun.0.elapsed().as_secs_f64());
        let used = processor_time() - begun.1;
        self.by_processor.push(gigabytes / used.as_secs_f64());
    }
}

pub(super) fn run(effort: Effort, series: &mut Vec<Samples>) -> Result<(), Problem> {
    let [mut raw, mut plain, mut sealed] = ["raw TCP", "plain", "sealed"].map(Rates::new);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let plain_end = runtime.block_on(Receiver::start(Protection::Plain))?;
    let sealed_end = runtime.block_on(Receiver::start(Protection::Sealed))?;
    let data = Arc::new(vec![7; effort.bulk_bytes]);
    for _ in 0..effort.bulk {
        raw_tcp(&data, &mut raw)?;
        for (end, rates) in [(&plain_end, &mut plain), (&sealed_end, &mut sealed)] {
            runtime.block_on(end.fill(&data, rates))?;
        }
    }
    let rates = [raw, plain, sealed].into_iter();
    series.extend(rates.flat_map(|rates| [rates.by_clock, rates.by_processor]));
    Ok(())
}

/// Reads into one buffer over and over, as iperf3 does.
fn raw_tcp(data: &[u8], rates: &mut Rates) -> Result<(), Problem> {
    let listener = TcpListener::bind(loopback())?;
    let address = listener.local_addr()?;
    let length = data.len();
    let receiver = thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut buffer = vec![0; RAW_BLOCK];
        let mut left = length;
        while left > 0 {
            left -= stream.read(&mut buffer)?.min(left);
        }
        stream.write_all(&[1])
    });
    let mut stream = TcpStream::connect(address)?;
    let begun = (Instant::now(), processor_time());
    for block in data.chunks(RAW_BLOCK) {
        stream.write_all(block)?;
    }
    stream.read_exact(&mut [0])?;
    rates.note(data.len(), begun);
    receiver.join().map_err(|_| "the receiver panicked")??;
    Ok(())
}

/// An endpoint on a thread of its own, whose memory is offered again and again.
struct Receiver {
    bulk: TcpBulk,
    sender: TcpBulk,
    _stop: oneshot::Sender<()>,
}

async fn start_end(protection: Protection) -> Result<TcpBulk, String> {
    let key = key().map_err(|error| error.to_string())?;
    let identity = Identity::new(Role::Control);
    TcpBulk::start(loopback(), key, identity, protection, Limits::default())
        .await
        .map_err(|error| error.to_string())
}

impl Receiver {
    async fn start(protection: Protection) -> Result<Self, Problem> {
        let (started, start) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            runtime.block_on(async {
                let _ = started.send(start_end(protection).await);
                let _ = stopped.await;
            });
        });
        Ok(Self {
            bulk: start.await??,
            sender: start_end(protection).await?,
            _stop: stop,
        })
    }

    /// The region's pages are there before, as a checkpoint's are from the second time on.
    async fn fill(&self, data: &Arc<Vec<u8>>, rates: &mut Rates) -> Result<(), Problem> {
        let offer = self.bulk.offer(vec![1; data.len()]).ok_or("too much is on offer")?;
        let begun = (Instant::now(), processor_time());
        let put = self
            .sender
            .put(self.bulk.local(), offer.token(), Arc::clone(data), 10 * DEADLINE);
        put.await?;
        rates.note(data.len(), begun);
        offer.filled(DEADLINE).await.ok_or("the region was not filled")?;
        Ok(())
    }
}
