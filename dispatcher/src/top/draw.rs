//! How `top` looks: three tables and a line, in 80 columns and up, without colour: what is chosen is marked by a sign
//! and by reversed letters. Only rows that are seen are made.

use super::state::{Asked, Line, Pane, State};
use crate::output::bytes;
use crate::rank_words;
use crate::verbs::nodes::left;
use pcm_proto::control::NodeState;
use pcm_proto::ids::NodeName;
use pcm_proto::job::JobStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line as TextLine;
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};

const KEYS: &str = "tab pane jk row s sort r turn v map / find|m move n ranks d drain c save|q quit";
/// Lines of a table beside its rows: its title and its head.
const FRAME: u16 = 2;

pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    if state.is_map {
        return map(frame, state);
    }
    let height = |rows: usize, max: u16| (rows as u16).min(max) + FRAME;
    let is_tall = frame.area().height >= 30;
    let most = |pane| match (state.pane == pane, is_tall) {
        (true, _) => 8,
        (false, true) => 6,
        (false, false) => 3,
    };
    let jobs_height = height(state.jobs().len(), most(Pane::Jobs));
    // Rows that few ranks leave are the nodes'.
    let ranks_height = (state.ranks().len() as u16).saturating_add(FRAME);
    let left = frame
        .area()
        .height
        .saturating_sub(2 + jobs_height + ranks_height + FRAME);
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(jobs_height),
        Constraint::Min(FRAME + 2),
        Constraint::Length(height(state.nodes().len(), most(Pane::Nodes).max(left))),
        Constraint::Length(1),
    ])
    .split(frame.area());
    frame.render_widget(Paragraph::new(head(state)), areas[0]);
    jobs(frame, areas[1], state);
    ranks(frame, areas[2], state);
    nodes(frame, areas[3], state);
    frame.render_widget(Paragraph::new(bottom(state)), areas[4]);
}

/// The nodes with the ranks on them instead of the table of ranks.
fn map(frame: &mut Frame<'_>, state: &State) {
    let jobs_height = (state.jobs().len() as u16).min(6) + FRAME;
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(jobs_height),
        Constraint::Min(FRAME + 2),
        Constraint::Length(1),
    ])
    .split(frame.area());
    frame.render_widget(Paragraph::new(head(state)), areas[0]);
    jobs(frame, areas[1], state);
    nodes(frame, areas[2], state);
    frame.render_widget(Paragraph::new(bottom(state)), areas[3]);
}

fn head(state: &State) -> TextLine<'static> {
    let look = state.look();
    let up = look.nodes.iter().filter(|node| node.state == NodeState::Up).count();
    let ranks: u32 = look.jobs.iter().map(|job| job.size).sum();
    let counted = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut text = format!(
        "pcm  {up} of {} up  {}  {}",
        counted(look.nodes.len(), "node"),
        counted(look.jobs.len(), "job"),
        counted(ranks as usize, "rank")
    );
    if !state.filter.is_empty() {
        text += &format!("  filter {:?}", state.filter);
    }
    TextLine::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn bottom(state: &State) -> String {
    match &state.line {
        Line::Idle(text) if text.is_empty() => KEYS.to_owned(),
        Line::Idle(text) => text.clone(),
        Line::Filter => format!("filter: {}_  (enter keeps it, esc clears it)", state.filter),
        Line::Ask { asked, typed } => match asked {
            Asked::Target { job, rank } => format!("move rank {rank} of job {job} to node: {typed}_  (enter, esc)"),
            Asked::Size { job, now } => format!("job {job} has {now} ranks; new number: {typed}_  (enter, esc)"),
        },
        Line::Confirm(order) => format!("{} y or n", order.question()),
    }
}

/// What a table is about.
struct Panel<'a> {
    pane: Pane,
    title: String,
    /// Names and widths; a width of 0 is what is left.
    columns: &'a [(&'static str, u16)],
    count: usize,
}

/// A table of which only the rows around the chosen one are made.
fn table(frame: &mut Frame<'_>, area: Rect, state: &State, panel: Panel<'_>, row: impl Fn(usize) -> Vec<String>) {
    let Panel {
        pane,
        title,
        columns,
        count,
    } = panel;
    let has_focus = state.pane == pane;
    let visible = usize::from(area.height.saturating_sub(FRAME));
    let chosen = state.chosen(pane);
    let first = chosen
        .saturating_sub(visible.saturating_sub(1))
        .min(count.saturating_sub(visible));
    let rows = (first..count.min(first + visible)).map(|place| {
        let mark = if has_focus && place == chosen { ">" } else { " " };
        let cells = std::iter::once(mark.to_owned()).chain(row(place));
        let style = if has_focus && place == chosen {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        Row::new(cells.collect::<Vec<_>>()).style(style)
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let title = if has_focus {
        format!("[{title}]")
    } else {
        format!(" {title} ")
    };
    let names = std::iter::once("").chain(columns.iter().map(|(name, _)| *name));
    let width = |(_, width): &(&str, u16)| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    };
    let widths = std::iter::once(Constraint::Length(1)).chain(columns.iter().map(width));
    let table = Table::new(rows, widths)
        .header(Row::new(names.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .block(Block::new().borders(Borders::TOP).title(title));
    frame.render_widget(table, area);
}

fn jobs(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let jobs = state.jobs();
    let columns = [
        ("JOB", 5),
        ("NAME", 16),
        ("STATE", 13),
        ("RANKS", 6),
        ("EPOCH", 6),
        ("NODES", 26),
    ];
    let panel = Panel {
        pane: Pane::Jobs,
        title: "jobs".to_owned(),
        columns: &columns,
        count: jobs.len(),
    };
    table(frame, area, state, panel, |place| {
        let job = jobs[place];
        let nodes: Vec<String> = job
            .nodes
            .iter()
            .take(8)
            .map(|(node, ranks)| format!("{node}:{ranks}"))
            .collect();
        vec![
            job.job.to_string(),
            job.name.clone(),
            format!("{:?}", job.state).to_lowercase(),
            job.size.to_string(),
            job.epoch.to_string(),
            nodes.join(" "),
        ]
    });
}

fn ranks(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let ranks = state.ranks();
    let title = match state.job {
        Some(job) => format!("ranks of job {job} by {}", state.sort.word()),
        None => "ranks".to_owned(),
    };
    // Where there is room, nodes have longer names.
    let node_width = if area.width >= 100 { 16 } else { 5 };
    let columns = [
        ("RANK", 4),
        ("NODE", node_width),
        ("ITER", 7),
        ("USE ms", 6),
        ("MPI ms", 6),
        ("SENT/s", 7),
        ("MEMORY", 7),
        (rank_words::CALL_HEAD, 0),
        ("SINCE", 7),
    ];
    let panel = Panel {
        pane: Pane::Ranks,
        title,
        columns: &columns,
        count: ranks.len(),
    };
    table(frame, area, state, panel, |place| {
        let rank = ranks[place];
        vec![
            rank.rank.to_string(),
            rank.node.to_string(),
            short(rank.iteration.0),
            rank_words::milliseconds(rank.useful_ms),
            rank_words::milliseconds(rank.wait_ms),
            state
                .rate(rank)
                .map_or_else(|| "-".to_owned(), |rate| bytes(rate as u64)),
            rank_words::memory(rank),
            rank_words::call(rank),
            rank_words::since(rank),
        ]
    });
}

/// A number that must not be cut: what has more than seven digits is rounded.
fn short(number: u64) -> String {
    match number {
        0..10_000_000 => number.to_string(),
        10_000_000..10_000_000_000 => format!("{:.1}M", number as f64 / 1e6),
        _ => format!("{:.1}G", number as f64 / 1e9),
    }
}

fn nodes(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let nodes = state.nodes();
    let has_ends = nodes.iter().any(|node| node.ends.is_some());
    let mut columns = vec![
        ("NODE", 12),
        ("STATE", 9),
        ("CPUS", 5),
        ("SPEED", 6),
        ("OTHERS", 7),
        ("RANKS", 6),
        ("FREE", 9),
        ("ADDRESS", 18),
    ];
    if state.is_map {
        columns = vec![
            ("NODE", 12),
            ("STATE", 8),
            ("CPUS", 4),
            ("OTHERS", 6),
            ("FREE", 8),
            ("LEFT", if has_ends { 8 } else { 4 }),
            ("JOB:RANKS", 0),
        ];
    } else if has_ends {
        // Instead of the address, which does not fit into 80 columns beside it.
        columns.pop();
        columns.push(("LEFT", 8));
    }
    let panel = Panel {
        pane: Pane::Nodes,
        title: "nodes".to_owned(),
        columns: &columns,
        count: nodes.len(),
    };
    table(frame, area, state, panel, |place| {
        let node = nodes[place];
        if state.is_map {
            return vec![
                node.name.to_string(),
                format!("{:?}", node.state).to_lowercase(),
                node.cpus.len().to_string(),
                format!("{:.2}", node.load_by_others),
                bytes(node.free_memory),
                left(node),
                ranks_by_job(state, &node.name),
            ];
        }
        vec![
            node.name.to_string(),
            format!("{:?}", node.state).to_lowercase(),
            node.cpus.len().to_string(),
            format!("{:.2}", node.speed),
            format!("{:.2}", node.load_by_others),
            node.ranks.to_string(),
            bytes(node.free_memory),
            if has_ends { left(node) } else { node.address.clone() },
        ]
    });
}

/// What runs on a node: the chosen job with the numbers of its ranks, of the others how many.
fn ranks_by_job(state: &State, node: &NodeName) -> String {
    let look = state.look();
    let of_job = |job: &JobStatus| {
        let counted = job
            .nodes
            .iter()
            .find(|(on, _)| on == node)
            .map_or(0, |(_, count)| *count);
        let here = look.ranks.iter().filter(|rank| rank.node == *node);
        let numbers: Vec<String> = here.map(|rank| rank.rank.to_string()).collect();
        match state.job == Some(job.job) && !numbers.is_empty() {
            true => Some(format!("{}:{}", job.job, numbers.join(","))),
            false => (counted > 0).then(|| format!("{}:{counted}x", job.job)),
        }
    };
    look.jobs.iter().filter_map(of_job).collect::<Vec<_>>().join(" ")
}
