//! The table a person reads. Pure: must never measure.

use pcm_bench::{Ratio, Report};
use pcm_view::table::{Align, Table};

/// Series with their spread, then the ratios, then the remarks.
pub(super) fn render(report: &Report) -> String {
    let mut columns = vec![("variant", Align::Left), ("runs", Align::Right)];
    columns.extend(["median", "lowest", "p95", "highest"].map(|name| (name, Align::Right)));
    columns.push(("unit", Align::Left));
    let mut table = Table::new(&columns);
    for series in &report.series {
        let mut row = vec![series.name.clone(), series.values.len().to_string()];
        row.extend([0.5, 0.0, 0.95, 1.0].map(|part| figure(series.quantile(part))));
        row.push(series.unit.to_owned());
        table.row(row);
    }
    let ratios = report.ratios.iter().map(Ratio::to_string);
    let lines = ratios.chain(report.remarks.iter().cloned());
    lines.fold(table.render(), |text, line| text + &line + "\n")
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
    use pcm_bench::Samples;

    #[test]
    fn figures_keep_four_digits() {
        assert_eq!(figure(0.001_234_56), "0.001235");
        assert_eq!(figure(12_345.6), "12346");
        assert_eq!(figure(1.5), "1.500");
    }

    #[test]
    fn a_table_shows_medians_ratios_and_targets() {
        let series = vec![Samples::of("plain", "s", vec![1.0, 2.0, 3.0])];
        let ratios = vec![Ratio::new("a / b", 1.25, "<= 2")];
        let text = render(&Report {
            series,
            ratios,
            remarks: vec!["remark".into()],
            ..Report::default()
        });
        assert!(text.contains("2.000") && text.contains("a / b: 1.2500  (target <= 2)") && text.ends_with("remark\n"));
    }
}
