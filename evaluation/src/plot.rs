//! Plots as SVG text: lines over time, and points in the plane of delay and throughput.
//!
//! The SVG is self-contained and uses generic font families, so a page embeds it as it is.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// Colours that stay apart for colour-blind readers (Okabe and Ito 2008), in the order of use.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(80, 80, 80),
];

const FONT: &str = "sans-serif";

/// Height of the strip with title and legend, left edge of the title, room for a legend's swatch and for
/// each character of its names (the width of text is not known without a font).
const HEAD_PIXELS: u32 = 34;
const LEFT_PIXELS: i32 = 16;
const SWATCH_PIXELS: i32 = 36;
const CHARACTER_PIXELS: i32 = 8;

/// What stands around the data.
pub struct Frame<'a> {
    /// Above the plot.
    pub title: &'a str,
    /// Quantity and unit of the horizontal axis.
    pub x: &'a str,
    /// Quantity and unit of the vertical axis.
    pub y: &'a str,
    /// Width and height, pixels.
    pub size: (u32, u32),
}

/// A named line or point set.
pub struct Curve {
    /// Name in the legend.
    pub label: String,
    /// The data; points that are not finite are left out, and break a line.
    pub points: Vec<(f64, f64)>,
}

/// Lines over a common axis; `reference` draws a dashed horizontal line with a name.
pub fn lines(frame: &Frame<'_>, series: &[Curve], reference: Option<(f64, &str)>) -> Result<String> {
    draw(frame, series, reference, |chart, series| {
        if let Some((value, _)) = reference {
            let (from, to) = (chart.x_range().start, chart.x_range().end);
            let dashes = DashedLineSeries::new([(from, value), (to, value)], 4, 4, reference_style());
            chart.draw_series(dashes).map_err(failed)?;
        }
        for (i, s) in series.iter().enumerate() {
            for run in s.points.split(|p| !finite(p)).filter(|run| !run.is_empty()) {
                let line = LineSeries::new(run.iter().copied(), colour(i).stroke_width(2));
                chart.draw_series(line).map_err(failed)?;
            }
        }
        Ok(())
    })
}

/// Pictures of one width, one above the other.
pub fn stacked(panels: &[String]) -> String {
    let size = |panel: &str, what: &str| -> u32 {
        let value = panel.split_once(&format!("{what}=\"")).and_then(|(_, rest)| rest.split_once('"'));
        value.and_then(|(value, _)| value.parse().ok()).unwrap_or(0)
    };
    let width = panels.iter().map(|panel| size(panel, "width")).max().unwrap_or(0);
    let (mut body, mut height) = (String::new(), 0);
    for panel in panels {
        body.push_str(&panel.replacen("<svg ", &format!("<svg y=\"{height}\" "), 1));
        height += size(panel, "height");
    }
    format!(
        "<svg width=\"{width}\" height=\"{height}\" xmlns=\"http://www.w3.org/2000/svg\">\n{body}</svg>\n"
    )
}

/// Points, a colour per series.
pub fn points(frame: &Frame<'_>, series: &[Curve]) -> Result<String> {
    draw(frame, series, None, |chart, series| {
        for (i, s) in series.iter().enumerate() {
            let dots = s.points.iter().filter(|p| finite(p)).map(|&p| Circle::new(p, 6, colour(i).filled()));
            chart.draw_series(dots).map_err(failed)?;
        }
        Ok(())
    })
}

/// Lines with their points marked, the first one larger: where a sweep begins.
pub fn trails(frame: &Frame<'_>, series: &[Curve]) -> Result<String> {
    draw(frame, series, None, |chart, series| {
        for (i, s) in series.iter().enumerate() {
            let known: Vec<(f64, f64)> = s.points.iter().copied().filter(finite).collect();
            let dots = known
                .iter()
                .enumerate()
                .map(|(j, &p)| Circle::new(p, if j == 0 { 7 } else { 3 }, colour(i).filled()));
            chart.draw_series(dots).map_err(failed)?;
            let line = LineSeries::new(known.iter().copied(), colour(i).stroke_width(1));
            chart.draw_series(line).map_err(failed)?;
        }
        Ok(())
    })
}

/// Bars side by side in categories; a point's x is the number of its category.
pub fn bars(frame: &Frame<'_>, categories: &[String], series: &[Curve]) -> Result<String> {
    // Bars of a category share 80 % of its width, and stand in the middle of it.
    let width = 0.8 / series.len().max(1) as f64;
    let place = |i: usize, x: f64| x + 0.1 + width * i as f64;
    draw_with(frame, series, None, Some(categories), |chart, series| {
        for (i, s) in series.iter().enumerate() {
            let bars = s.points.iter().filter(|p| finite(p)).map(|&(x, y)| {
                Rectangle::new([(place(i, x), 0.0), (place(i, x) + width, y)], colour(i).filled())
            });
            chart.draw_series(bars).map_err(failed)?;
        }
        Ok(())
    })
}

fn colour(series: usize) -> RGBColor {
    PALETTE[series % PALETTE.len()]
}

fn reference_style() -> ShapeStyle {
    BLACK.mix(0.6).stroke_width(1)
}

/// The names beside the title, where they cover no data.
fn legend(
    head: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    series: &[Curve],
    reference: Option<(f64, &str)>,
) -> Result<()> {
    let known = series.iter().enumerate().map(|(i, s)| (s.label.as_str(), colour(i).filled()));
    let named: Vec<(&str, ShapeStyle)> =
        known.chain(reference.map(|(_, name)| (name, reference_style().filled()))).collect();
    let width = |name: &str| SWATCH_PIXELS + CHARACTER_PIXELS * name.chars().count() as i32;
    let total: i32 = named.iter().map(|(name, _)| width(name)).sum();
    let mut x = head.dim_in_pixel().0 as i32 - total;
    for (name, style) in named {
        let swatch = Rectangle::new([(x, 15), (x + 14, 19)], style);
        head.draw(&swatch).map_err(failed)?;
        head.draw(&Text::new(name.to_string(), (x + 20, 11), (FONT, 13))).map_err(failed)?;
        x += width(name);
    }
    Ok(())
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn draw(
    frame: &Frame<'_>,
    series: &[Curve],
    reference: Option<(f64, &str)>,
    data: impl FnOnce(&mut Chart<'_, '_>, &[Curve]) -> Result<()>,
) -> Result<String> {
    draw_with(frame, series, reference, None, data)
}

/// Draws with numbers along the horizontal axis, or with names of categories.
fn draw_with(
    frame: &Frame<'_>,
    series: &[Curve],
    reference: Option<(f64, &str)>,
    categories: Option<&[String]>,
    data: impl FnOnce(&mut Chart<'_, '_>, &[Curve]) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, frame.size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let (head, body) = root.split_vertically(HEAD_PIXELS);
        head.draw(&Text::new(frame.title.to_string(), (LEFT_PIXELS, 10), (FONT, 18))).map_err(failed)?;
        legend(&head, series, reference)?;
        let all = || series.iter().flat_map(|s| &s.points).filter(|p| finite(p));
        let x_max = all().map(|p| p.0).fold(0.0, f64::max);
        let y_max = all().map(|p| p.1).fold(reference.map_or(0.0, |(value, _)| value), f64::max);
        let room = |max: f64| if max > 0.0 { max * 1.08 } else { 1.0 };
        let x_end = categories.map_or(room(x_max), |names| names.len().max(1) as f64);
        let mut chart = ChartBuilder::on(&body)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..x_end, 0.0..room(y_max))
            .map_err(failed)?;
        let named = |x: &f64| category(categories.unwrap_or_default(), *x);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc(frame.x)
            .y_desc(frame.y)
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 14));
        if let Some(categories) = categories {
            // A label at every half: the middle of a category has its name, its edges have none.
            mesh.disable_x_mesh().x_labels(2 * categories.len() + 3).x_label_formatter(&named);
        }
        mesh.draw().map_err(failed)?;
        data(&mut chart, series)?;
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// The name of the category with its middle at `x`.
fn category(categories: &[String], x: f64) -> String {
    let middle = (x.fract() - 0.5).abs() < 1e-6;
    let name = if middle { categories.get(x as usize) } else { None };
    name.cloned().unwrap_or_default()
}

fn finite(p: &(f64, f64)) -> bool {
    p.0.is_finite() && p.1.is_finite()
}

fn failed(e: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing a plot: {e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame<'_> = Frame { title: "t <&>", x: "time (s)", y: "rate (Mbps)", size: (640, 360) };

    #[test]
    fn a_line_is_broken_where_data_is_missing() {
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 1.0)];
        let svg =
            lines(&FRAME, &[Curve { label: "anole".into(), points }], Some((48.0, "capacity"))).unwrap();
        let runs = svg.matches("stroke=\"#0072B2\"").count();
        assert_eq!(runs, 2, "{svg}");
        assert!(svg.contains("anole") && svg.contains("capacity") && !svg.contains("NaN"));
    }

    #[test]
    fn nothing_to_draw_is_still_a_plot() {
        let svg = points(&FRAME, &[Curve { label: "none".into(), points: vec![] }]).unwrap();
        assert!(svg.trim_end().ends_with("</svg>"));
    }
}
