//! Cells read back from the CSV that `findings` writes. Must never guess: a line that it cannot read is an error.

use super::cell::{Cell, Metric, Run, Values};
use super::plan::{CANDIDATES, Data, name};

/// What is wrong with a file, and in which line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Unreadable {
    pub line: usize,
    pub what: String,
}

/// Places of the columns. Others are skipped; the size of the data is missing in files of earlier versions.
struct Columns {
    from: usize,
    to: usize,
    data: usize,
    method: usize,
    by: usize,
    mib: Option<usize>,
    values: [usize; Metric::ALL.len()],
}

impl Columns {
    fn of(head: &str) -> Result<Self, String> {
        let names: Vec<&str> = head.split(',').collect();
        let place = |name: &str| names.iter().position(|other| *other == name);
        let column = |name: &str| place(name).ok_or_else(|| format!("there is no column {name:?}"));
        let mut values = [0; Metric::ALL.len()];
        for (place, metric) in values.iter_mut().zip(Metric::ALL) {
            *place = column(&format!("{}_{}", metric.name(), metric.unit()))?;
        }
        Ok(Self {
            from: column("from")?,
            to: column("to")?,
            data: column("data")?,
            method: column("method")?,
            by: column("by")?,
            mib: place("data_MiB"),
            values,
        })
    }
}

/// Adds the runs of a file to the cells they belong to, in the order of the file.
///
/// # Errors
/// [`Unreadable`] names the first wrong line; cells before it have been added.
pub fn read_cells(text: &str, cells: &mut Vec<Cell>) -> Result<(), Unreadable> {
    let mut lines = text.lines().enumerate();
    let at = |line: usize| move |what: String| Unreadable { line: line + 1, what };
    let head = lines.next().map_or("", |(_, head)| head);
    let columns = Columns::of(head).map_err(at(0))?;
    for (nth, line) in lines.filter(|(_, line)| !line.is_empty()) {
        add(line, &columns, cells).map_err(at(nth))?;
    }
    Ok(())
}

fn add(line: &str, columns: &Columns, cells: &mut Vec<Cell>) -> Result<(), String> {
    let fields: Vec<&str> = line.split(',').collect();
    let field = |place: usize| fields.get(place).copied().ok_or("there are too few fields");
    let ranks = |place: usize| {
        let text = field(place)?;
        text.parse().map_err(|_| format!("{text:?} is no number of ranks"))
    };
    let (from, to): (u32, u32) = (ranks(columns.from)?, ranks(columns.to)?);
    let data = field(columns.data)?;
    let data = Data::named(data).ok_or("a kind of data that is not known")?;
    let candidate = |place: usize| {
        let text = field(place)?;
        let found = (0..CANDIDATES).find(|candidate| name(*candidate) == text);
        found.ok_or_else(|| format!("there is no method {text:?}"))
    };
    let method = candidate(columns.method)?;
    // What was made by a relaunch is no method of live change.
    let by = match field(columns.by)? {
        "relaunch" => "relaunch",
        _ => name(candidate(columns.by)?),
    };
    let mib = columns.mib.map(field).transpose()?.filter(|text| !text.is_empty());
    let mib = mib.map(|text| text.parse().map_err(|_| format!("{text:?} is no size in MiB")));
    let mib = mib.transpose()?;
    let mut values: Values = [0.0; Metric::ALL.len()];
    for (value, place) in values.iter_mut().zip(columns.values) {
        let text = field(place)?;
        let read = text.parse::<f64>().ok().filter(|read| read.is_finite() && *read >= 0.0);
        *value = read.ok_or_else(|| format!("{text:?} is no measured value"))?;
    }
    let place = cells.iter().position(|cell| cell.is_of(from, to, data, mib));
    let place = place.unwrap_or_else(|| {
        cells.push(Cell::new(from, to, data, mib));
        cells.len() - 1
    });
    let by = by.to_owned();
    cells[place].add(method, Run { values, by });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::{RUNS, cell_of};
    use super::super::findings::csv;
    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        let written = csv(&[cell_of(|candidate| candidate as f64 + 0.1)]);
        let mut cells = Vec::new();
        read_cells(&written, &mut cells).unwrap();
        assert_eq!(csv(&cells), written);
        assert_eq!((cells.len(), cells[0].runs(12).len()), (1, RUNS));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let written = csv(&[cell_of(|_| 1.0)]);
        let (head, rest) = written.split_once('\n').unwrap();
        let first = rest.lines().next().unwrap();
        let wrong = |line: &str| {
            let text = format!("{head}\n{first}\n{line}\n");
            let error = read_cells(&text, &mut Vec::new()).unwrap_err();
            assert_eq!(error.line, 3);
            error.what
        };
        assert_eq!(wrong("2,4,rows"), "there are too few fields");
        assert_eq!(
            wrong(&first.replace("rows", "columns")),
            "a kind of data that is not known"
        );
        assert_eq!(wrong(&first.replace("auto", "<b>")), "there is no method \"<b>\"");
        assert_eq!(wrong(&first.replacen('2', "two", 1)), "\"two\" is no number of ranks");
        assert!(wrong(&first.replacen(",1,", ",nan,", 1)).contains("is no measured value"));
        let no_head = read_cells("", &mut Vec::new()).unwrap_err();
        assert_eq!(no_head.to_string(), "line 1: there is no column \"pause_ms\"");
    }
}
