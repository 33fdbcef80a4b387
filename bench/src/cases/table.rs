//! The table a person reads. Pure: must never measure.

use pcm_bench::Report;
use std::fmt::Write;

/// Series with their spread, then the ratios, then the remarks.
pub(super) fn render(report: &Report) -> String {
    let width = report
        .series
        .iter()
        .map(|series| series.name.len())
        .chain(report.ratios.iter().map(|r| r.name.len()));
    let width = width.max().unwrap_or(0).max(8);
    let mut text = format!(
        "{:<width$} {:>6} {:>12} {:>12} {:>12} {:>12}  unit\n",
        "variant", "runs", "median", "lowest", "p95", "highest"
    );
    for series in &report.series {
        let figures = [0.5, 0.0, 0.95, 1.0]
            .map(|part| format!("{:>12}", figure(series.quantile(part))))
            .join(" ");
        let _ = writeln!(
            text,
            "{:<width$} {:>6} {figures}  {}",
            series.name,
            series.values.len(),
            series.unit
        );
    }
    for ratio in &report.ratios {
        let target = ratio.target.as_ref();
        let target = target.map(|target| format!("  (target {target})")).unwrap_or_default();
        let _ = writeln!(
            text,
            "{:<width$} {:>6} {:>12.4}{target}",
            ratio.name, "ratio", ratio.value
        );
    }
    for remark in &report.remarks {
        let _ = writeln!(text, "{remark}");
    }
    text
}

/// Four significant figures, whatever the size.
fn figure(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 12) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_bench::{Ratio, Samples};

    #[test]
    fn figures_keep_four_digits() {
        assert_eq!(figure(0.001_234_56), "0.001235");
        assert_eq!(figure(12_345.6), "12346");
        assert_eq!(figure(1.5), "1.500");
    }

    #[test]
    fn a_table_shows_medians_ratios_and_targets() {
        let series = vec![Samples::of("plain", "s", vec![1.0, 2.0, 3.0])];
        let ratios = vec![Ratio::new("a / b", 1.25).held_to("<= 2")];
        let text = render(&Report {
            series,
            ratios,
            remarks: vec!["remark".into()],
            ..Report::default()
        });
        assert!(text.contains("2.000") && text.contains("1.2500  (target <= 2)") && text.ends_with("remark\n"));
    }
}
