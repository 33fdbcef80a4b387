//! What a link costs on the loopback, beside plain TCP in the same run: `cargo bench -p pcm-fabric`. The numbers of
//! `docs/decisions` come from here.

use pcm_fabric::{ClusterKey, Endpoint, Link, LocalAddress, LocalEndpoint};
use pcm_proto::handshake::{Identity, Role};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

const CONNECTS: usize = 500;
const ROUNDS: usize = 5000;
const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 4000;
const DEADLINE: Duration = Duration::from_secs(10);

type Failure = Box<dyn std::error::Error>;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Processor time of this process, both ends together: what a busy machine does not distort.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn report(what: &str, mut samples: Vec<Duration>) {
    samples.sort();
    let micros = |at: usize| samples[at * (samples.len() - 1) / 100].as_secs_f64() * 1e6;
    println!("{what:<44} median {:8.1} us   p95 {:8.1} us", micros(50), micros(95));
}

fn report_bandwidth(what: &str, bytes: usize, time: Duration, processor: Duration) {
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    println!(
        "{what:<44} {:8.2} GB/s   {:8.2} GB per processor second of both ends",
        rate(time),
        rate(processor)
    );
}

fn report_connects(what: &str, samples: Vec<Duration>, processor: Duration) {
    let each = processor.as_secs_f64() * 1e6 / samples.len() as f64;
    report(what, samples);
    println!("{:<44} {each:8.1} us of processor time of both ends", "");
}

fn plain_tcp() -> Result<(), Failure> {
    let listener = TcpListener::bind(loopback())?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        for _ in 0..CONNECTS {
            listener.accept()?;
        }
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut small = [0; 16];
        for _ in 0..ROUNDS {
            stream.read_exact(&mut small)?;
            stream.write_all(&small)?;
        }
        let mut block = vec![0; BLOCK];
        for _ in 0..BLOCKS {
            stream.read_exact(&mut block)?;
        }
        stream.write_all(&[1])
    });
    let (mut samples, used) = (Vec::new(), processor_time());
    for _ in 0..CONNECTS {
        let begun = Instant::now();
        drop(TcpStream::connect(address)?);
        samples.push(begun.elapsed());
    }
    report_connects("connect, plain TCP", samples, processor_time() - used);
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut small = [0; 16];
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        stream.write_all(&small)?;
        stream.read_exact(&mut small)?;
        samples.push(begun.elapsed());
    }
    report("round trip of 16 bytes, plain TCP", samples);
    let block = vec![0; BLOCK];
    let (begun, used) = (Instant::now(), processor_time());
    for _ in 0..BLOCKS {
        stream.write_all(&block)?;
    }
    stream.read_exact(&mut [0])?;
    report_bandwidth(
        "256 KiB blocks, plain TCP",
        BLOCK * BLOCKS,
        begun.elapsed(),
        processor_time() - used,
    );
    server.join().map_err(|_| "the server thread panicked")??;
    Ok(())
}

async fn serve(mut link: Link) -> Result<(), Failure> {
    for _ in 0..ROUNDS {
        let number: u64 = link.recv().await?;
        link.send(&number).await?;
    }
    for _ in 0..BLOCKS {
        let block: Block = link.recv().await?;
        assert_eq!(block.0.len(), BLOCK);
    }
    link.send(&0u64).await?;
    link.split().0.close().await;
    Ok(())
}

/// Bytes as one MessagePack string of bytes.
struct Block(Vec<u8>);

impl serde::Serialize for Block {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Block {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl serde::de::Visitor<'_> for Bytes {
            type Value = Block;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Block, E> {
                Ok(Block(bytes.to_vec()))
            }
            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Block, E> {
                Ok(Block(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

async fn drive(what: &str, mut link: Link) -> Result<(), Failure> {
    let mut samples = Vec::new();
    for number in 0..ROUNDS as u64 {
        let begun = Instant::now();
        link.send(&number).await?;
        let _: u64 = link.recv().await?;
        samples.push(begun.elapsed());
    }
    report(&format!("round trip of a number, {what}"), samples);
    let block = Block(vec![0; BLOCK]);
    let (begun, used) = (Instant::now(), processor_time());
    for _ in 0..BLOCKS {
        link.send(&block).await?;
    }
    let _: u64 = link.recv().await?;
    report_bandwidth(
        &format!("256 KiB blocks, {what}"),
        BLOCK * BLOCKS,
        begun.elapsed(),
        processor_time() - used,
    );
    Ok(())
}

/// Each side in a thread and runtime of its own, as two daemons are.
fn in_runtime<T>(what: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(what)
}

fn over_network() -> Result<(), Failure> {
    let key = ClusterKey::generate()?;
    let server_key = key.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        in_runtime(async {
            let endpoint = Endpoint::new(server_key, Identity::new(Role::Control));
            let mut listener = endpoint.listen(loopback()).await?;
            tell.send(listener.address())?;
            for _ in 0..CONNECTS {
                listener.accept().await.ok_or("no link")?;
            }
            serve(listener.accept().await.ok_or("no link")?).await
        })
        .map_err(|error| error.to_string())
    });
    let address = told.recv()?.to_string();
    in_runtime(async {
        let endpoint = Endpoint::new(key, Identity::new(Role::Control));
        let (mut samples, used) = (Vec::new(), processor_time());
        for _ in 0..CONNECTS {
            let begun = Instant::now();
            drop(endpoint.connect(&address, DEADLINE).await?);
            samples.push(begun.elapsed());
        }
        report_connects("connect and handshake, link over TCP", samples, processor_time() - used);
        drive("link over TCP", endpoint.connect(&address, DEADLINE).await?).await
    })?;
    Ok(server.join().map_err(|_| "the server thread panicked")??)
}

fn over_unix_socket() -> Result<(), Failure> {
    let address = LocalAddress::Abstract(format!("pcm-bench-{}", std::process::id()));
    let server_address = address.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        in_runtime(async {
            let endpoint = LocalEndpoint::new(Identity::new(Role::Control));
            let mut listener = endpoint.listen(&server_address).await?;
            tell.send(())?;
            serve(listener.accept().await).await
        })
        .map_err(|error| error.to_string())
    });
    told.recv()?;
    in_runtime(async {
        let endpoint = LocalEndpoint::new(Identity::new(Role::Control));
        drive("link over a unix socket", endpoint.connect(&address, DEADLINE).await?).await
    })?;
    Ok(server.join().map_err(|_| "the server thread panicked")??)
}

fn main() -> Result<(), Failure> {
    plain_tcp()?;
    over_network()?;
    over_unix_socket()
}
