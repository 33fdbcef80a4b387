//! Bench `links`: what a link costs on the loopback, beside plain TCP in the same process. Numbers of `docs/decisions`
//! come from here.

use super::setting::{self, DEADLINE, Problem, in_runtime, key, loopback, micros, processor_time};
use crate::cases::bench::{Bench, Context};
use pcm_bench::{Failure, Report, Samples};
use pcm_fabric::{Endpoint, Link, LocalAddress, LocalEndpoint};
use pcm_proto::handshake::{Identity, Role};
use serde_bytes::ByteBuf;
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

pub(in crate::cases) const BENCH: Bench = Bench {
    name: "links",
    about: "connecting, round trips and 256 KiB blocks: links over TCP and over a unix socket against plain TCP",
    run,
};

const CONNECTS: usize = 500;
const ROUNDS: usize = 5000;
const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 4000;

/// Names of what is compared.
const PLAIN: &str = "plain TCP";
const OVER_TCP: &str = "link over TCP";

fn run(_: &Context) -> Result<Report, Failure> {
    let mut report = Report::default();
    let series = &mut report.series;
    let measured = plain_tcp(series)
        .and_then(|()| over_network(series))
        .and_then(|()| over_unix_socket(series));
    measured.map_err(setting::of(BENCH.name))?;
    for what in ["connect", "round trip", "256 KiB blocks, of both ends' processor time"] {
        let of = |way: &str| report.series_named(&format!("{what}, {way}")).map(Samples::median);
        if let (Some(link), Some(plain)) = (of(OVER_TCP), of(PLAIN)) {
            report.ratio(format!("{what}, link over TCP / plain TCP"), link / plain, None);
        }
    }
    report.remarks =
        vec!["connect: a link's with its handshake; round trip: of 16 bytes, or of a number by a link".into()];
    Ok(report)
}

/// Processor time of each of the connects, both ends together.
fn connects(way: &str, times: &[Duration], used: Duration) -> [Samples; 2] {
    let each = used.as_secs_f64() * 1e6 / times.len() as f64;
    let name = format!("connect, of both ends' processor time, {way}");
    [
        micros(format!("connect, {way}"), times),
        Samples::of(name, "us", vec![each]),
    ]
}

fn blocks(way: &str, time: Duration, used: Duration) -> [Samples; 2] {
    let rate = |time: Duration| vec![(BLOCK * BLOCKS) as f64 / time.as_secs_f64() / 1e9];
    let name = format!("256 KiB blocks, of both ends' processor time, {way}");
    [
        Samples::of(format!("256 KiB blocks, {way}"), "GB/s", rate(time)),
        Samples::of(name, "GB/s", rate(used)),
    ]
}

fn plain_tcp(series: &mut Vec<Samples>) -> Result<(), Problem> {
    let listener = TcpListener::bind(loopback())?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || -> std::io::Result<()> {
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
    series.extend(connects(PLAIN, &samples, processor_time() - used));
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
    series.push(micros(format!("round trip, {PLAIN}"), &samples));
    let block = vec![0; BLOCK];
    let (begun, used) = (Instant::now(), processor_time());
    for _ in 0..BLOCKS {
        stream.write_all(&block)?;
    }
    stream.read_exact(&mut [0])?;
    series.extend(blocks(PLAIN, begun.elapsed(), processor_time() - used));
    server.join().map_err(|_| "the server thread panicked")??;
    Ok(())
}

async fn serve(mut link: Link) -> Result<(), Problem> {
    for _ in 0..ROUNDS {
        let number: u64 = link.recv().await?;
        link.send(&number).await?;
    }
    for _ in 0..BLOCKS {
        let block: ByteBuf = link.recv().await?;
        assert_eq!(block.len(), BLOCK);
    }
    link.send(&0u64).await?;
    link.split().0.close().await;
    Ok(())
}

async fn drive(way: &str, mut link: Link, series: &mut Vec<Samples>) -> Result<(), Problem> {
    let mut samples = Vec::new();
    for number in 0..ROUNDS as u64 {
        let begun = Instant::now();
        link.send(&number).await?;
        let _: u64 = link.recv().await?;
        samples.push(begun.elapsed());
    }
    series.push(micros(format!("round trip, {way}"), &samples));
    let block = ByteBuf::from(vec![0; BLOCK]);
    let (begun, used) = (Instant::now(), processor_time());
    for _ in 0..BLOCKS {
        link.send(&block).await?;
    }
    let _: u64 = link.recv().await?;
    series.extend(blocks(way, begun.elapsed(), processor_time() - used));
    Ok(())
}

fn over_network(series: &mut Vec<Samples>) -> Result<(), Problem> {
    let key = key()?;
    let server_key = key.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let server = thread::spawn(move || {
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
        series.extend(connects(OVER_TCP, &samples, processor_time() - used));
        drive(OVER_TCP, endpoint.connect(&address, DEADLINE).await?, series).await
    })?;
    Ok(server.join().map_err(|_| "the server thread panicked")??)
}

fn over_unix_socket(series: &mut Vec<Samples>) -> Result<(), Problem> {
    let address = LocalAddress::Abstract(format!("pcm-bench-{}", std::process::id()));
    let server_address = address.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let server = thread::spawn(move || {
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
        drive(
            "link over a unix socket",
            endpoint.connect(&address, DEADLINE).await?,
            series,
        )
        .await
    })?;
    Ok(server.join().map_err(|_| "the server thread panicked")??)
}
