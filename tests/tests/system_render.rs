//! The render farm: a film of POV-Ray, rendered while nodes come, go and ranks die, is that of one process.

use rustix::process::{Signal, getuid};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tests::{
    background::Background,
    binaries::mpiexec,
    cluster::{Cluster, LIMIT},
    example::{compile, mpi_compiler, ranks},
    farm::{FILM_LIMIT, PICTURE, build, farm, finished, has_programs, scene, wait_for_frames},
    limited, processes,
    skip::cannot_run,
    wait,
};

const FRAMES: usize = 120;

/// Nodes are free within this time from the order on.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(1);

/// The picture of a file, without the comment that names the time.
fn pixels(file: &Path) -> Vec<u8> {
    let bytes = fs::read(file).unwrap_or_else(|failure| panic!("{}: {failure}", file.display()));
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut rest = &bytes[..];
    while lines.len() < 3 {
        let end = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .expect("the head of a picture");
        if rest[0] != b'#' {
            lines.push(&rest[..=end]);
        }
        rest = &rest[end + 1..];
    }
    [lines.concat(), rest.to_vec()].concat()
}

fn frame(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("frame-{number:03}.ppm"))
}

/// Kills a rank and waits until the farm goes on.
fn kill(cluster: &Cluster, rank: usize, folder: &Path) {
    let before = ranks(cluster);
    assert!(processes::send(before[rank].1, Signal::KILL));
    wait::until("new ranks", LIMIT, || {
        let now = ranks(cluster);
        (now.len() == before.len() && now[rank].1 != before[rank].1).then_some(())
    });
    wait_for_frames(folder, finished(folder) + 4);
}

/// The povray of a rank.
fn povray(rank: u32) -> u32 {
    wait::until("a povray", LIMIT, || {
        let children = processes::children(rank);
        children
            .into_iter()
            .find(|pid| proc_files::program_name(*pid).as_deref() == Some("povray"))
    })
}

/// Orders two of four nodes back; how long it takes until nothing of the farm runs there.
fn give_back(cluster: &Cluster, order: impl FnOnce()) -> Duration {
    let before = ranks(cluster);
    let rendering: Vec<u32> = before.iter().map(|(_, rank)| povray(*rank)).collect();
    let began = Instant::now();
    order();
    let gone = began.elapsed();
    let stay: Vec<u32> = ranks(cluster).iter().map(|(_, rank)| *rank).collect();
    let left = before
        .iter()
        .zip(&rendering)
        .filter(|((_, rank), _)| !stay.contains(rank));
    let left: Vec<u32> = left.flat_map(|((_, rank), povray)| [*rank, *povray]).collect();
    assert_eq!(left.len(), 4, "{before:?}, {stay:?}");
    assert!(left.iter().all(|pid| !processes::is_alive(*pid)), "{left:?}");
    assert!(gone <= GIVEN_BACK_WITHIN, "{gone:?}");
    gone
}

/// All frames of two folders are the same pictures, and nothing half done is left.
fn assert_same_film(film: &Path, reference: &Path) {
    for number in 1..=FRAMES {
        assert!(
            pixels(&frame(film, number)) == pixels(&frame(reference, number)),
            "{number}"
        );
    }
    assert_ne!(pixels(&frame(film, 1)), pixels(&frame(film, 2)));
    let parts = fs::read_dir(film).expect("the film").flatten();
    let parts = parts.filter(|file| file.file_name().to_string_lossy().starts_with(".part"));
    assert_eq!(parts.count(), 0);
    assert!(fs::metadata(film.join("film.mp4")).is_ok_and(|file| file.len() > 1000));
}

#[test]
fn a_film_is_that_of_one_process_while_nodes_come_and_go_and_ranks_die() {
    if !has_programs() {
        return;
    }
    let cluster = Cluster::up(4);
    let reference = cluster.files().join("reference");
    fs::create_dir(&reference).expect("a folder of the test");
    let mut alone = Command::new("povray");
    alone.arg(format!("+I{}", scene().display())).arg("+Oreference/frame-");
    alone
        .args(["-D", "+FP", "+WT1", "+KFI1", &format!("+KFF{FRAMES}")])
        .args(PICTURE);
    let alone = Background::start(alone.current_dir(cluster.files()));

    let film = cluster.files().join("film");
    let options = ["-n", "1", "--policy", "none", "--checkpoint-every", "auto"];
    let running = Background::start(&mut farm(&cluster, &options, &scene(), FRAMES));
    wait_for_frames(&film, 1);
    let mut began = Instant::now();
    // Rank-seconds that there were, from the first frame on.
    let mut there = 0.0;
    wait_for_frames(&film, 9);
    let of_one = began.elapsed().as_secs_f64() / 8.0;
    let mut ranks_change = |arguments: &[&str], before: f64| {
        let outcome = cluster.run(arguments);
        assert!(outcome.status.success(), "{outcome:?}");
        there += before * began.elapsed().as_secs_f64();
        began = Instant::now();
    };
    ranks_change(&["expand", "farm", "--to", "4"], 1.0);
    wait_for_frames(&film, 25);
    kill(&cluster, 2, &film);
    kill(&cluster, 0, &film);
    // A POV-Ray that crashes costs its frame only one more try.
    let ended = povray(ranks(&cluster)[1].1);
    assert!(processes::send(ended, Signal::KILL));
    wait_for_frames(&film, 75);

    let gone = give_back(&cluster, || ranks_change(&["shrink", "farm", "--to", "2"], 4.0));

    wait_for_frames(&film, FRAMES);
    there += 2.0 * began.elapsed().as_secs_f64();
    let outcome = running.end(FILM_LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(
        outcome.stdout.contains(&format!("frames {FRAMES} missing 0 ranks 2")),
        "{outcome:?}"
    );
    assert!(outcome.stderr.contains("povray was ended by signal 9"), "{outcome:?}");
    // What it would take if each frame took as long as on the one rank at the beginning, and none was begun twice.
    let of_ideal = of_one * (FRAMES - 1) as f64 / there;
    println!("a frame of one rank took {of_one:.3} s; time against ideal {of_ideal:.3}; nodes free after {gone:?}");

    let outcome = alone.end(FILM_LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_same_film(&film, &reference);
    assert!(of_ideal >= 0.85, "{of_ideal}, {there} rank-seconds");
    cluster.down();
}

#[test]
fn the_plain_farm_renders_the_same_and_finds_what_is_finished() {
    if !has_programs() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder of the test");
    let program = build("render-plain", &mpi_compiler("mpicc"), folder.path());
    let render = |frames: &str| {
        let mut command = Command::new(mpiexec());
        command
            .args(["-n", "2"])
            .arg(&program)
            .arg(scene())
            .args([frames, "film"])
            .args(PICTURE);
        limited::run(command.current_dir(folder.path()), FILM_LIMIT)
    };
    let outcome = render("6");
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(outcome.stdout.contains("frames 6 missing 0 ranks 2"), "{outcome:?}");
    fs::remove_file(folder.path().join("film/frame-3.ppm")).expect("a frame");
    let outcome = render("6");
    assert!(outcome.stdout.contains(" rendered 1 frames"), "{outcome:?}");
}

#[test]
fn a_scene_that_does_not_parse_and_a_machine_without_povray_are_named() {
    if !has_programs() {
        return;
    }
    let cluster = Cluster::up(1);
    let wrong = cluster.files().join("wrong.pov");
    fs::write(&wrong, "sphere { <1, 2 }\n").expect("a file of the test");
    let outcome = limited::run(&mut farm(&cluster, &["-n", "2"], &wrong, FRAMES), LIMIT);
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("line 1: Parse Error"), "{outcome:?}");
    assert!(outcome.stdout.contains("frames 120 missing 120"), "{outcome:?}");

    let missing = cluster.files().join("missing.pov");
    let outcome = limited::run(&mut farm(&cluster, &["-n", "1"], &missing, FRAMES), LIMIT);
    assert!(!outcome.status.success(), "{outcome:?}");
    let said = format!("render: {}: No such file or directory", missing.display());
    assert!(outcome.stderr.contains(&said), "{outcome:?}");

    let mut without = farm(&cluster, &["-n", "1"], &scene(), FRAMES);
    let outcome = limited::run(without.env("PATH", "/bin/none"), LIMIT);
    assert!(!outcome.status.success(), "{outcome:?}");
    assert!(outcome.stderr.contains("apt install povray"), "{outcome:?}");
    cluster.down();
}

/// A disk of its own, until the test ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf) -> Self {
        fs::create_dir(&at).expect("a folder of the test");
        let mut mount = Command::new("mount");
        compile(mount.args(["-t", "tmpfs", "-o", "size=4m", "pcm-test-film"]).arg(&at));
        Self(at)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_farm_on_a_full_disk_waits_for_room() {
    if !has_programs() {
        return;
    }
    if !getuid().is_root() {
        cannot_run("a disk of its own needs root");
        return;
    }
    // Daemons keep the disks that were there when they began.
    let place = Cluster::place();
    let film = place.files().join("film");
    let _disk = SmallDisk::mount(film.clone());
    let cluster = place.booted(&["--local", "1"], &[]);
    let filler = film.join("filler");
    fs::write(&filler, vec![7; 3 << 20]).expect("room");
    fs::write(film.join("more"), vec![7; (1 << 20) - 20_000]).expect("room");
    let running = Background::start(&mut farm(&cluster, &["-n", "1"], &scene(), 8));
    let said = || running.stderr().contains("is full; waiting for room").then_some(());
    wait::until("the farm to say what it waits for", LIMIT, said);
    assert_eq!(finished(&film), 0);
    fs::remove_file(&filler).expect("the filler");
    let outcome = running.end(FILM_LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(outcome.stdout.contains("frames 8 missing 0"), "{outcome:?}");
    cluster.down();
}
