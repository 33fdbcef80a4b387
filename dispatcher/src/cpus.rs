//! CPU lists as people write them: `0-1,4`, and one list per node, separated by `;`.

/// Highest CPU number accepted; the kernel's own limit is lower.
const CPU_MAX: u32 = 8191;

/// Reads `0-1,4` into sorted, distinct CPU numbers. An empty text means all CPUs and gives an empty list.
pub fn parse_list(text: &str) -> Result<Vec<u32>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first {
            return Err(format!("CPU range {part:?} runs backwards: write {last}-{first}"));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Reads one list for each of `nodes` nodes; a single list holds for all of them.
pub fn parse_per_node(text: &str, nodes: usize) -> Result<Vec<Vec<u32>>, String> {
    let lists = text.split(';').map(parse_list).collect::<Result<Vec<_>, _>>()?;
    match lists.len() {
        count if count == nodes => Ok(lists),
        1 => Ok(vec![lists[0].clone(); nodes]),
        count => Err(format!(
            "{count} CPU lists for {nodes} nodes: give one list, or one for each node, separated by ';'"
        )),
    }
}

/// Writes CPU numbers as ranges; an empty list reads `all`.
pub fn format_list(cpus: &[u32]) -> String {
    if cpus.is_empty() {
        return "all".to_owned();
    }
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |&(first, last): &(u32, u32)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

fn number(text: &str) -> Result<u32, String> {
    match text.trim().parse::<u32>() {
        Ok(cpu) if cpu <= CPU_MAX => Ok(cpu),
        Ok(cpu) => Err(format!("CPU {cpu} is beyond the limit of {CPU_MAX}")),
        Err(_) => Err(format!("{text:?} is not a CPU number: write lists as 0-1,4")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_sorted_and_without_repetition() {
        assert_eq!(parse_list("4,0-2, 1").unwrap(), [0, 1, 2, 4]);
        assert_eq!(parse_list("").unwrap(), [0u32; 0]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in ["a", "1-", "3-1", "-1", "99999999999", "9000"] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_list_holds_for_all_nodes_and_a_wrong_count_is_refused() {
        assert_eq!(parse_per_node("0;1;0-1", 3).unwrap(), [vec![0], vec![1], vec![0, 1]]);
        assert_eq!(parse_per_node("1", 2).unwrap(), [vec![1], vec![1]]);
        assert!(parse_per_node("0;1", 3).is_err());
    }

    #[test]
    fn a_list_is_written_as_it_is_read() {
        for text in ["0", "0-3", "0-1,4,6-7"] {
            assert_eq!(format_list(&parse_list(text).unwrap()), text);
        }
        assert_eq!(format_list(&[]), "all");
    }
}
