//! What changes have cost as text, for a file that people read too: a first line that names the format, names of
//! columns, then one change a line, oldest first. Told in docs/methods.md. A line that cannot be read costs that line
//! only.

use super::method_costs::{MethodCost, MethodCosts, Situation};
use pcm_proto::ids::Bytes;

/// The lines every such file begins with.
pub const HEAD: &str =
    "pcm-method-costs 1\nfrom,to,registered_bytes,constant_bytes,program,arguments,method,pause_ms\n";

/// Lines that could not be read are named up to this many.
const NAMED_MAX: usize = 3;

/// A text that is none of this format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not hold costs of methods: it begins {:?}", .begins)]
pub struct NotCosts {
    begins: String,
}

/// What was found in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What could be read.
    pub costs: MethodCosts,
    /// Lines that could not, by number from 1.
    pub damaged: Vec<usize>,
    /// Lines of changes.
    pub lines: usize,
}

pub fn line(cost: &MethodCost) -> String {
    let MethodCost {
        situation,
        method,
        pause_ms,
    } = cost;
    let Situation {
        from,
        to,
        registered,
        constant,
        program,
        arguments,
    } = situation;
    format!(
        "{from},{to},{},{},{program},{arguments:08x},{method},{pause_ms:.3}\n",
        registered.0, constant.0
    )
}

pub fn write(costs: &MethodCosts) -> String {
    costs.seen().fold(HEAD.to_owned(), |text, cost| text + &line(cost))
}

/// Reads what [`write()`] and [`line()`] have written.
pub fn read(text: &str) -> Result<Found, NotCosts> {
    let Some(rows) = text.strip_prefix(HEAD) else {
        let begins = text.lines().next().unwrap_or_default().chars().take(40).collect();
        return Err(NotCosts { begins });
    };
    let mut found = Found {
        costs: MethodCosts::default(),
        damaged: Vec::new(),
        lines: 0,
    };
    for (row, number) in rows.split_inclusive('\n').zip(HEAD.lines().count() + 1..) {
        found.lines += 1;
        match row.strip_suffix('\n').and_then(cost) {
            Some(cost) => found.costs.learn(cost),
            None => found.damaged.push(number),
        }
    }
    Ok(found)
}

fn cost(row: &str) -> Option<MethodCost> {
    let fields: Vec<&str> = row.split(',').collect();
    let [from, to, registered, constant, program, arguments, method, pause_ms] = fields[..] else {
        return None;
    };
    let cost = MethodCost {
        situation: Situation {
            from: from.parse().ok()?,
            to: to.parse().ok()?,
            registered: Bytes(registered.parse().ok()?),
            constant: Bytes(constant.parse().ok()?),
            program: program.to_owned(),
            arguments: u32::from_str_radix(arguments, 16).ok()?,
        },
        method: method.parse().ok()?,
        pause_ms: pause_ms.parse().ok()?,
    };
    cost.is_sensible().then_some(cost)
}

impl Found {
    /// What is wrong with the text, if anything is.
    pub fn trouble(&self) -> Option<String> {
        let named: Vec<String> = self.damaged.iter().take(NAMED_MAX).map(usize::to_string).collect();
        let more = if self.damaged.len() > NAMED_MAX { ", ..." } else { "" };
        (!named.is_empty()).then(|| {
            format!(
                "{} of {} lines cannot be read and are left out (line {}{more})",
                self.damaged.len(),
                self.lines,
                named.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::method_costs::tests::situation;
    use super::*;

    fn some() -> MethodCosts {
        let mut costs = MethodCosts::default();
        for (pause_ms, method) in [(1.25, "merge-p2p-async"), (3.5, "baseline-collective-sync")] {
            costs.learn(MethodCost {
                situation: situation(2, 4, 64),
                method: method.parse().unwrap(),
                pause_ms,
            });
        }
        costs
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = write(&some());
        assert!(
            text.ends_with("2,4,67108864,0,heat2d,00000007,baseline-collective-sync,3.500\n"),
            "{text}"
        );
        let found = read(&text).unwrap();
        assert_eq!((found.costs.clone(), found.trouble()), (some(), None));
        assert_eq!(read(HEAD).unwrap().lines, 0);
    }

    #[test]
    fn a_damaged_line_is_named_and_costs_no_other() {
        let good = write(&some());
        for damage in [
            "2,4,1,0,x,7,merge-p2p,1.0\n",
            "2,4,1,0,x,7,merge-p2p-sync,NaN\n",
            "0,4,1,0,x,7,merge-p2p-sync,1.0\n",
            "2,4\n",
            "\n",
            "2,4,1,0,x,7,merge-p2p-sync,1.0",
        ] {
            let found = read(&format!("{good}{damage}")).unwrap();
            assert_eq!(found.costs, some(), "{damage:?}");
            assert_eq!(found.damaged, [5], "{damage:?}");
            assert!(found.trouble().unwrap().contains("line 5"), "{damage:?}");
        }
    }

    #[test]
    fn another_format_is_refused_as_a_whole() {
        for text in ["", "pcm-method-costs 2\n", "{\"a\": 1}\n"] {
            let refused = read(text).unwrap_err().to_string();
            assert!(refused.contains("does not hold costs"), "{refused}");
        }
    }
}
