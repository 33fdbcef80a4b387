//! Conjugate gradients on matrices of several kinds: bad files are named, entries are divided evenly before and after
//! changes, and all residuals are those of an undisturbed run, bit for bit. `system_examples` has the same program
//! under many changes and kills.

use pcm_proto::method::Method;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tests::{
    background::Background,
    binaries::{built, mpiexec},
    cluster::{Cluster, LIMIT},
    example::{mpi_compiler, source},
    language::cpp,
    limited::{self, Outcome},
    wait,
};

/// A program of the example, compiled; None where there is no C++ compiler.
fn program(name: &str, with: &Path, folder: &Path) -> Option<OsString> {
    let source = source("sparse_cg").join(name);
    cpp(&source, with, folder)?.pop()
}

/// Writes a matrix of so many rows.
fn matrix(arguments: &[&str], folder: &Path) -> PathBuf {
    let mut command = Command::new("python3");
    let made = limited::run(command.arg(source("sparse_cg/mesh.py")).args(arguments), LIMIT);
    assert!(made.status.success(), "{made:?}");
    let path = folder.join(format!("{}.mtx", arguments.join("")));
    fs::write(&path, made.stdout).expect("a file of the test");
    path
}

fn under_mpiexec(ranks: u32, words: &[&OsString]) -> Outcome {
    let mut command = Command::new(mpiexec());
    // Ranks outnumber CPUs; the default collectives then take milliseconds.
    command.env("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "0");
    limited::run(command.args(["-n", &ranks.to_string()]).args(words), LIMIT)
}

/// The history of some steps under mpiexec.
fn history(program: &OsString, matrix: &Path, ranks: u32, steps: u32) -> String {
    let path = matrix.with_extension("history");
    let (steps, pause) = (OsString::from(steps.to_string()), OsString::from("0"));
    let words = [program, matrix.as_os_str(), &steps, &pause, path.as_os_str()].map(OsString::from);
    let outcome = under_mpiexec(ranks, &words.each_ref());
    assert!(outcome.status.success(), "{outcome:?}");
    fs::read_to_string(path).expect("a history")
}

const HEAD: &str = "%%MatrixMarket matrix coordinate real general\n";

/// What is wrong with a matrix, after its head if that is right, and what must be said of it.
const BAD: [(&str, &str); 22] = [
    ("", "line 2: the numbers of rows, columns and entries"),
    ("3 3\n", "line 2: the numbers of rows, columns and entries"),
    ("3 3 3 3\n", "line 2: the numbers of rows, columns and entries"),
    ("% more\r\n\r\n3 4 1\r\n", "line 4: the matrix is not square"),
    ("0 0 0\n", "line 2: a matrix of 1 to 4194304 rows"),
    (
        "9000000000000 9000000000000 1\n",
        "line 2: a matrix of 1 to 4194304 rows",
    ),
    ("2 2 -1\n", "line 2: the numbers of rows, columns and entries"),
    ("2 2 2\n1 1 1\n0 2 1\n", "line 4: row or column is not between 1 and 2"),
    (
        "2 2 2\n\n1 1 1\n% 3\n2 3 1\n",
        "line 6: row or column is not between 1 and 2",
    ),
    (
        "2 2 2\n1 1 1\n99999999999999999999 2 1\n",
        "line 4: row or column is not",
    ),
    (
        "2 2 3\n1 1 1\n2 2 1\n",
        "line 5: the file ends here: 2 of 3 entries are there",
    ),
    (
        "2 2 2\n1 1 1\n2 2 1\n% 3\n\n1 2 1\n",
        "line 7: there are more than 2 entries",
    ),
    ("2 2 2\n1 1 1\n2 2\n", "line 4: row, column and value of an entry"),
    ("2 2 2\n1 1 one\n2 2 1\n", "line 3: row, column and value of an entry"),
    ("2 2 2\n1 1 1 1\n2 2 1\n", "line 3: row, column and value of an entry"),
    ("2 2 2\n1 1 1\n2 2 nan\n", "line 4: the value is no finite number"),
    ("2 2 2\n1 1 1\n2 2 1e999\n", "line 4: the value is no finite number"),
    ("2 2 3\n1 1 1\n2 2 1\n1 1 2\n", "line 5: entry (1, 1) is there twice"),
    (
        "2 2 4\n1 1 1\n2 2 1\n1 2 0.5\n2 1 0.25\n",
        "the matrix is not symmetric: entry (1, 2) is 0.5, but (2, 1) is 0.25",
    ),
    (
        "2 2 3\n1 1 1\n2 2 1\n1 2 0.5\n",
        "entry (1, 2) is 0.5, but there is no (2, 1)",
    ),
    (
        "2 2 3\n1 1 1\n2 2 1\n2 1 0.5\n",
        "entry (2, 1) is 0.5, but there is no (1, 2)",
    ),
    (
        "2 2 1\n1 1 1\n",
        "entry (2, 2) is not positive: the matrix is not positive definite",
    ),
];

/// Positive on the diagonal, but not positive definite: that is found in the iterations.
const INDEFINITE: &str = "2 2 4\n1 1 1\n2 2 1\n1 2 2\n2 1 2\n";

/// The program ends with exit code 1, and one rank says why.
fn assert_named(outcome: &Outcome, said: &str) {
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    let lines: Vec<&str> = outcome
        .stderr
        .lines()
        .filter(|line| line.contains("sparse_cg: "))
        .collect();
    assert!(lines.len() == 1 && lines[0].contains(said), "{said:?} in {outcome:?}");
}

/// A disk that takes no history is named, and the job goes on.
fn assert_goes_on_without_a_history(program: &OsString, folder: &Path) {
    let matrix = matrix(&["20"], folder).into_os_string();
    let rest = ["2", "0", "/dev/full"].map(OsString::from);
    let outcome = under_mpiexec(2, &[program, &matrix, &rest[0], &rest[1], &rest[2]]);
    assert!(outcome.status.success(), "{outcome:?}");
    let said = outcome.stderr.matches("cannot write /dev/full: No space left").count();
    assert_eq!(said, 2, "once a step: {outcome:?}");
}

#[test]
fn what_is_wrong_with_a_matrix_or_a_history_is_named_once() {
    let cluster = Cluster::up(2);
    let folder = cluster.files();
    let Some(program) = program("sparse_cg.cpp", &built("pcmcxx"), folder) else {
        return;
    };
    let path = folder.join("bad.mtx").into_os_string();
    let arguments = ["3", "0"].map(OsString::from);
    let words = [&program, &path, &arguments[0], &arguments[1]];
    assert_named(&under_mpiexec(3, &words), "bad.mtx: cannot open it");
    for head in ["", "%%MatrixMarket matrix array real general\n", "2 2 2\n"] {
        fs::write(&path, head).expect("a file of the test");
        assert_named(&under_mpiexec(3, &words), "bad.mtx, line 1: \"%%MatrixMarket matrix");
    }
    for (text, said) in BAD {
        fs::write(&path, format!("{HEAD}{text}")).expect("a file of the test");
        assert_named(&under_mpiexec(3, &words), said);
    }
    assert_goes_on_without_a_history(&program, folder);
    // Under a daemon, before and after the registration ends, with a checkpoint to come back to.
    for (text, said) in [BAD[17], BAD[18], (INDEFINITE, "the matrix is not positive definite")] {
        fs::write(&path, format!("{HEAD}{text}")).expect("a file of the test");
        let mut run = cluster.pcmctl(&["run", "-n", "3", "--checkpoint-every", "0.1", "--"]);
        assert_named(&limited::run(run.args(words), LIMIT), said);
    }
    cluster.down();
}

/// The history does not depend on the version, on the number of ranks, on the kind of file or on the owners of rows.
fn assert_same_bits(plain: &OsString, [blocks, owners]: [&OsString; 2], folder: &Path) {
    for kind in ["mesh", "poisson3d", "powerlaw", "random"] {
        let general = matrix(&["400", "--kind", kind], folder);
        let symmetric = matrix(&["400", "--kind", kind, "--symmetric"], folder);
        assert!(fs::read(&symmetric).expect("a file").len() < fs::read(&general).expect("a file").len());
        let expected = history(plain, &general, 1, 3);
        assert!(expected.lines().count() > 20, "{expected}");
        for (program, matrix, ranks) in [
            (plain, &symmetric, 3),
            (blocks, &general, 2),
            (blocks, &symmetric, 3),
            (owners, &general, 2),
        ] {
            assert_eq!(history(program, matrix, ranks, 3), expected, "{kind} on {ranks}");
        }
    }
}

/// How far the shares of entries are from even at most: the most and least entries of a rank by their mean, after
/// each change; and on how many ranks.
fn shares(stdout: &str, entries: u64) -> Vec<(u64, f64)> {
    let share = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [
            "sparse_cg:",
            "step",
            _,
            ranks,
            "ranks",
            "have",
            least,
            "to",
            most,
            "entries",
            "each",
        ] = words[..]
        else {
            return None;
        };
        let [ranks, least, most] = [ranks, least, most].map(|word| word.parse::<u64>().expect("a number"));
        let of_mean = |count: u64| ((count * ranks) as f64 / entries as f64 - 1.0).abs();
        Some((ranks, of_mean(least).max(of_mean(most))))
    };
    stdout.lines().filter_map(share).collect()
}

/// So far from even a rank's share of the entries may be.
const UNEVEN_MAX: f64 = 0.1;

/// Rows of very different lengths are divided by entries, also after changes; and a rank that joins needs no file.
fn assert_stays_even(cluster: &Cluster, program: &OsString, (matrix, expected): (&Path, &str), job: &str) {
    let text = fs::read_to_string(matrix).expect("a matrix");
    let entries = text.lines().count() as u64 - 2;
    let (history, input) = (matrix.with_extension("residuals"), matrix.with_extension(job));
    fs::copy(matrix, &input).expect("a file of the test");
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--"]);
    command
        .arg(program)
        .arg(&input)
        .args([STEPS.to_string().as_str(), "100000"]);
    let run = Background::start(command.arg(&history));
    wait::until("the ranks to iterate", LIMIT, || {
        cluster.is_iterating(job).then_some(())
    });
    fs::remove_file(&input).expect("the file");
    for change in [["expand", job, "--to", "4"], ["shrink", job, "--to", "3"]] {
        let outcome = cluster.run(&change);
        assert!(outcome.status.success(), "{outcome:?}");
    }
    let outcome = run.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let shares = shares(&outcome.stdout, entries);
    println!("{shares:?}");
    assert!(shares.iter().map(|(ranks, _)| *ranks).eq([2, 4, 3]), "{outcome:?}");
    assert!(shares.iter().all(|(_, uneven)| *uneven <= UNEVEN_MAX), "{outcome:?}");
    assert_eq!(fs::read_to_string(history).expect("a history"), expected);
}

/// Steps of those jobs.
const STEPS: u32 = 40;

#[test]
fn residuals_are_the_same_bits_for_every_kind_of_matrix_and_layout_and_entries_stay_evenly_divided() {
    let cluster = Cluster::up(4);
    let folder = cluster.files().to_owned();
    let Some(plain) = program("sparse_cg-plain.cpp", &mpi_compiler("mpicxx"), &folder) else {
        return;
    };
    let malleable = ["sparse_cg.cpp", "sparse_cg-owners.cpp"];
    let [blocks, owners] = malleable.map(|name| program(name, &built("pcmcxx"), &folder).expect("as before"));
    assert_same_bits(&plain, [&blocks, &owners], &folder);
    let matrix = matrix(&["1000", "--kind", "powerlaw"], &folder);
    let expected = history(&plain, &matrix, 1, STEPS);
    assert_stays_even(&cluster, &blocks, (&matrix, &expected), "1");
    assert_stays_even(&cluster, &owners, (&matrix, &expected), "2");
    cluster.down();
}

/// The history is whole up to some step, however the job ended.
fn assert_right_so_far(plain: &OsString, matrix: &Path, history_of_job: &Path) {
    let found = fs::read_to_string(history_of_job).expect("a history");
    // The job may have ended within a line.
    let found = &found[..=found.rfind('\n').expect("lines")];
    let last = found.lines().last().and_then(|line| line.split(' ').next());
    let steps: u32 = last.and_then(|step| step.parse().ok()).expect("a step");
    let expected = history(plain, matrix, 1, steps + 1);
    assert!(
        steps > 0 && expected.starts_with(found),
        "{steps} steps: {found}\nexpected: {expected}"
    );
}

#[test]
fn all_methods_are_compared_on_the_data_of_a_program_of_the_user() {
    let cluster = Cluster::up(2);
    let folder = cluster.files().to_owned();
    let Some(plain) = program("sparse_cg-plain.cpp", &mpi_compiler("mpicxx"), &folder) else {
        return;
    };
    let sparse = program("sparse_cg.cpp", &built("pcmcxx"), &folder).expect("as before");
    let matrix = matrix(&["1000", "--kind", "powerlaw"], &folder);
    let history = matrix.with_extension("residuals");
    let out = folder.join("out");
    let bench = |steps: &str| {
        let mut command = cluster.pcmctl(&[
            "bench",
            "redistribute",
            "--pairs",
            "1:2",
            "--rounds",
            "1",
            "--learn",
            "0",
        ]);
        command.arg("--out").arg(&out).arg("--").arg(&sparse).arg(&matrix);
        limited::run(command.args([steps, "20000"]).arg(&history), LIMIT)
    };
    let outcome = bench("100000");
    assert!(outcome.status.success(), "{outcome:?}");
    let csv = fs::read_to_string(out.join("redistribute.csv")).expect("a file");
    let runs = 2 * (1 + Method::all().count());
    assert_eq!(csv.lines().count(), 1 + runs, "{csv}");
    for method in Method::all() {
        assert!(csv.contains(&format!(",{method},{method},0,")), "{method}: {csv}");
    }
    let page = fs::read_to_string(out.join("redistribute.html")).expect("a file");
    assert!(page.contains("own: least pause"), "{page}");
    assert_right_so_far(&plain, &matrix, &history);
    let outcome = bench("20");
    assert!(!outcome.status.success(), "{outcome:?}");
    let said = "the program ended before the bench was over";
    assert!(outcome.stderr.contains(said), "{outcome:?}");
    let both = cluster.run(&["bench", "redistribute", "--mib", "8", "--", "true"]);
    assert!(both.stderr.contains("cannot be used with"), "{both:?}");
    cluster.down();
}
