//! Two users of one machine: whatever the second tries against the cluster and the job of the first fails, and the job
//! ends right. Needs root, to make the users.

use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited::{self, Outcome},
    processes,
    skip::cannot_run,
    users::{self, User},
    wait,
};

/// The owner of a cluster, and another user, each with a folder of theirs below one where both may write.
struct Scene {
    place: Cluster,
    owner: User,
    other: User,
    shared: PathBuf,
}

impl Scene {
    /// The scene, if this machine lets a test make it.
    fn set() -> Option<Self> {
        if let Err(reason) = users::can_be_made() {
            cannot_run(&reason);
            return None;
        }
        let place = Cluster::place();
        let shared = place.files().join("shared");
        fs::create_dir(&shared).expect("a folder of the test");
        let (owner, other) = (User::make(), User::make());
        // As /tmp is: both may write, neither may remove what is the other's.
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("our own folder");
        fs::set_permissions(place.files(), fs::Permissions::from_mode(0o755)).expect("our own folder");
        for (user, name) in [(&owner, "owner"), (&other, "other")] {
            let folder = shared.join(name);
            fs::create_dir(&folder).expect("a folder of the test");
            user.give(&folder);
        }
        let scene = Self {
            place,
            owner,
            other,
            shared,
        };
        let seen = scene.by_owner("\"$CTL\" --version && test -x \"$TRIAL\"");
        if !seen.status.success() {
            cannot_run(&format!("another user cannot execute what was built: {}", seen.stderr));
            return None;
        }
        Some(scene)
    }

    fn cluster_dir(&self) -> PathBuf {
        self.shared.join("owner/cluster dir")
    }

    fn command(&self, user: &User, folder: &str, program: &str) -> Command {
        let folder = self.shared.join(folder);
        let mut command = user.command(self.place.command("setpriv"), program);
        command
            .env("PCM_CLUSTER", self.cluster_dir())
            .env("HOME", &folder)
            .env("TMPDIR", &folder)
            .env("CTL", built("pcmctl"))
            .env("TRIAL", built("pcm-trial"))
            .current_dir(&folder);
        command
    }

    fn by_owner(&self, script: &str) -> Outcome {
        limited::run(self.command(&self.owner, "owner", "sh").args(["-c", script]), LIMIT)
    }

    fn by_other(&self, script: &str) -> Outcome {
        limited::run(self.command(&self.other, "other", "sh").args(["-c", script]), LIMIT)
    }

    fn other_runs_python(&self, code: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.other, "other", "python3");
        command.args(["-c", code]).args(arguments);
        command
    }

    /// What the owner's `pcmctl` says as JSON.
    fn asked(&self, arguments: &str) -> Value {
        let outcome = self.by_owner(&format!("\"$CTL\" {arguments} --json"));
        assert!(outcome.status.success(), "{arguments}: {outcome:?}");
        serde_json::from_str(&outcome.stdout).expect("one JSON document")
    }

    fn daemon_pid(&self, node: &str) -> Option<u32> {
        let nodes = self.asked("nodes");
        let status = nodes.as_array()?.iter().find(|status| status["name"] == node)?.clone();
        u32::try_from(status["daemon_pid"].as_u64()?).ok()
    }

    /// The first user's processes: keepers, daemons, agents and ranks.
    fn processes(&self) -> Vec<u32> {
        let id = self.id();
        processes::with_variable("PCM_CLUSTER_ID", &id)
    }

    fn id(&self) -> String {
        let record = fs::read(self.cluster_dir().join("cluster.json")).expect("root may read it");
        let record: Value = serde_json::from_slice(&record).expect("a record");
        record["id"].as_str().expect("an id").to_owned()
    }

    fn up(&self) {
        let up = self.by_owner("umask 027; \"$CTL\" up --local 2");
        assert!(up.status.success(), "up: {up:?}");
    }

    fn down(self) {
        let down = self.by_owner("\"$CTL\" down");
        assert!(down.status.success(), "down: {down:?}");
        self.place.assert_nothing_left();
    }

    /// A job of one rank that ends when its input does.
    fn job(&self) -> Background {
        let script = "exec \"$CTL\" run -n 1 --name victim -- \"$TRIAL\" input";
        let mut job = Background::start(self.command(&self.owner, "owner", "sh").args(["-c", script]));
        job.write(b"before\n");
        let is_rank = |pid: &u32| processes::command_line(*pid).contains("pcm-trial");
        let runs = || self.processes().into_iter().find(is_rank);
        wait::until("a rank", LIMIT, runs);
        job
    }
}

/// The job goes on and ends as if no other user were there.
fn ends_right(mut job: Background) {
    job.write(b"after\n");
    job.close_input();
    let ended = job.end(LIMIT);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.stdout, "before\nafter\n");
}

/// Attaches to a process, as a debugger does; the code is 0 where that was allowed.
const ATTACH: &str = "\
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(0 if libc.ptrace(16, int(sys.argv[1]), None, None) == 0 else 3)";

/// Binds names of the network namespace, waiting for those that are taken until they are free.
const SQUAT: &str = "\
import socket, sys, time
kept, wanted = [], sys.argv[1:]
while wanted:
    for name in list(wanted):
        one = socket.socket(socket.AF_UNIX)
        try:
            one.bind('\\0' + name)
        except OSError:
            continue
        one.listen(8)
        kept.append(one)
        wanted.remove(name)
        print('taken ' + name + '.', flush=True)
    time.sleep(0.001)
sys.stdin.read()";

/// Asks for an image on the socket of a daemon that lends them; prints what comes back.
const BORROW: &str = "\
import socket, sys
one = socket.socket(socket.AF_UNIX)
one.settimeout(10)
one.connect('\\0' + sys.argv[1])
try:
    one.send(bytes.fromhex('920192010192'))
    print(len(one.recv(100)))
except OSError:
    print(0)";

#[test]
fn another_user_reads_stops_and_changes_nothing_of_a_cluster_and_its_job() {
    let Some(scene) = Scene::set() else { return };
    scene.up();
    let job = scene.job();
    let dir = scene.cluster_dir();
    let shown = dir.display();
    let pids = scene.processes();
    assert!(pids.len() >= 6, "two keepers and daemons, agents, a rank: {pids:?}");
    let mut tries = vec![
        format!("cat '{shown}/key'"),
        format!("ls '{shown}'"),
        format!("touch '{shown}/planted'"),
        format!("cat '{shown}'/nodes/n0/daemon.log"),
        format!("mv '{shown}' '{shown} moved'"),
        format!("\"$CTL\" --cluster '{shown}' nodes"),
        format!("\"$CTL\" --cluster '{shown}' run true"),
        format!("\"$CTL\" --cluster '{shown}' down"),
    ];
    for pid in &pids {
        tries.extend([
            format!("test -n \"$(tr '\\0' '\\n' < /proc/{pid}/environ)\""),
            format!("head -c 1 /proc/{pid}/maps | grep -q ."),
            format!("ls -l /proc/{pid}/fd/ | grep -q ."),
            format!("kill -9 {pid}"),
            format!("python3 -c '{ATTACH}' {pid}"),
        ]);
    }
    let segments = proc_files_of(&pids);
    for segment in &segments {
        tries.extend([
            format!("cat '{segment}'"),
            format!("rm -f '{segment}' && ! test -e '{segment}'"),
        ]);
    }
    for attempt in &tries {
        let outcome = scene.by_other(attempt);
        assert!(
            !outcome.status.success(),
            "the other user could: {attempt}: {outcome:?}"
        );
    }
    let lends = format!("pcm-parts-{}-n0", scene.id());
    let lent = limited::run(&mut scene.other_runs_python(BORROW, &[&lends]), LIMIT);
    assert_eq!(lent.stdout, "0\n", "{lent:?}");
    assert_eq!(scene.processes(), pids, "all of them live");
    ends_right(job);
    scene.down();
}

/// Files of shared memory that these processes have mapped.
fn proc_files_of(pids: &[u32]) -> Vec<String> {
    let files = pids.iter().flat_map(|pid| proc_files::mapped_files(*pid));
    let paths = files.map(|file| file.path).filter(|path| path.starts_with("/dev/shm"));
    let there = paths.filter(|path| path.exists());
    let mut names: Vec<String> = there.map(|path| path.display().to_string()).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_daemon_whose_names_another_user_took_starts_again_and_its_job_goes_on() {
    let Some(scene) = Scene::set() else { return };
    scene.up();
    let script = "exec \"$CTL\" run -n 2 -- \"$TRIAL\" ring 15";
    let mut job = Background::start(scene.command(&scene.owner, "owner", "sh").args(["-c", script]));
    job.wait_for("round 0", LIMIT);
    let id = scene.id();
    let names = [format!("pcm-{id}-n1"), format!("pcm-parts-{id}-n1")];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut squatter = Background::start(&mut scene.other_runs_python(SQUAT, &names));
    // Nothing is listening under the first name; the second is the daemon's until it dies.
    squatter.wait_for(&format!("taken {}.", names[0]), LIMIT);
    let before = scene.daemon_pid("n1").expect("a daemon");
    assert!(processes::send(before, Signal::KILL));
    squatter.wait_for(&format!("taken {}.", names[1]), LIMIT);
    let is_new = || scene.daemon_pid("n1").filter(|pid| *pid != before);
    wait::until("another daemon of n1", LIMIT, is_new);
    let ran = scene.by_owner("\"$CTL\" run -n 2 --nodes n1 -- \"$TRIAL\" ring 0");
    assert!(ran.status.success() && ran.stdout.ends_with("ring done\n"), "{ran:?}");
    let ended = job.end(LIMIT);
    assert!(
        ended.status.success() && ended.stdout.ends_with("ring done\n"),
        "{ended:?}"
    );
    squatter.close_input();
    assert!(squatter.end(LIMIT).status.success());
    scene.down();
}

#[test]
fn what_another_user_planted_where_a_cluster_is_to_be_is_refused() {
    let Some(scene) = Scene::set() else { return };
    let (shared, victim) = (scene.shared.display(), scene.shared.join("owner/precious"));
    fs::write(&victim, "precious").expect("a file of the test");
    scene.owner.give(&victim);
    let planted = format!(
        "mkdir -m 777 '{shared}/foreign' && mkdir -p '{shared}/open' && chmod 777 '{shared}/open' && ln -s \
         '{shared}/owner' '{shared}/link' && ln -s '{}' '{shared}/foreign/cluster.json.new'",
        victim.display()
    );
    let planted = scene.by_other(&planted);
    assert!(planted.status.success(), "{planted:?}");
    for name in ["foreign", "open", "link"] {
        let up = scene.by_owner(&format!("\"$CTL\" --cluster '{shared}/{name}' up --local 1"));
        assert_eq!(up.status.code(), Some(4), "{name}: {up:?}");
        assert!(up.stderr.contains("[foreign_cluster]"), "{name}: {up:?}");
    }
    assert_eq!(fs::read(&victim).expect("it is there"), b"precious");
    let left: Vec<String> = scene
        .processes_of_owner()
        .into_iter()
        .map(processes::command_line)
        .collect();
    assert!(left.is_empty(), "nothing was started, but {left:?}");
    scene.place.assert_nothing_left();
}

impl Scene {
    fn processes_of_owner(&self) -> Vec<u32> {
        let is_theirs = |pid: &u32| proc_files::real_user(*pid) == Some(self.owner.uid());
        proc_files::pids()
            .filter(is_theirs)
            .filter(|pid| processes::is_alive(*pid))
            .collect()
    }
}

#[test]
fn a_restart_from_what_others_may_write_is_refused_and_one_of_ours_says_what_it_runs() {
    let Some(scene) = Scene::set() else { return };
    scene.up();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pcm-checkpoint/tests/golden/v1");
    let golden = golden.display();
    let copy = |to: &str| format!("cp -r '{golden}' '{to}' && chmod -R u+w,go-w '{to}'");
    let (theirs, ours) = (scene.shared.join("other/kept"), scene.shared.join("owner/kept"));
    let laid = scene.by_other(&copy(&theirs.display().to_string()));
    assert!(laid.status.success(), "{laid:?}");
    let laid = scene.by_owner(&copy(&ours.display().to_string()));
    assert!(laid.status.success(), "{laid:?}");
    let restart = |from: &Path| scene.by_owner(&format!("\"$CTL\" restart '{}'", from.display()));
    let refused = restart(&theirs);
    assert!(refused.stderr.contains("[checkpoint]"), "{refused:?}");
    assert!(refused.stderr.contains("belongs to user"), "{refused:?}");
    for path in ["", "manifest.json", "SEAL"] {
        let path = ours.join(path);
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o020)).expect("root may");
        let refused = restart(&ours);
        assert!(
            refused.stderr.contains("other users may write"),
            "{}: {refused:?}",
            path.display()
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("root may");
    }
    // Its program is not on this machine, which is found out after it was said.
    let ours = restart(&ours);
    assert!(
        ours.stderr
            .contains("it runs \"/opt/sample/bin/sample\" \"--rows\" \"7\""),
        "{ours:?}"
    );
    scene.down();
}

#[test]
fn files_of_a_cluster_are_closed_to_others_whatever_the_umask_and_ranks_have_the_users() {
    let Some(scene) = Scene::set() else { return };
    for umask in ["000", "027"] {
        let script = format!("umask {umask}; \"$CTL\" up --local 2 >&2 && \"$CTL\" run -n 2 -- sh -c umask");
        let ran = scene.by_owner(&script);
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(ran.stdout, format!("0{umask}\n0{umask}\n"));
        let detached = scene.by_owner("\"$CTL\" run --detach -n 1 -- echo done && sleep 0.5");
        assert!(detached.status.success(), "{detached:?}");
        let open = scene.by_owner("find \"$PCM_CLUSTER\" -perm /077");
        assert!(open.status.success() && open.stdout.is_empty(), "{open:?}");
        let down = scene.by_owner("\"$CTL\" down");
        assert!(down.status.success(), "{down:?}");
        let output = scene.by_owner("rm -rf \"$PCM_CLUSTER\"");
        assert!(output.status.success(), "{output:?}");
    }
    scene.place.assert_nothing_left();
}
