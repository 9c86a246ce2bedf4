//! One plot: title, legend, axes, and its curves as lines, points or bars.

use crate::axis::Axis;
use crate::style::{Marker, Style, styles};
use crate::svg::{Picture, line, text, width_of};
use std::fmt::Write;

const TITLE: u32 = 17;
const LABEL: u32 = 15;
/// Room: at the edges, for a line of the head, below the axis, of a legend's swatch; for a tick along each axis.
const EDGE: f64 = 14.0;
const HEAD_LINE: f64 = 24.0;
const FOOT: f64 = 46.0;
const SWATCH: f64 = 34.0;
/// Lines of title and legend that a picture has room for.
const HEAD_LINES: f64 = 3.0;
const X_TICK: f64 = 90.0;
const Y_TICK: f64 = 38.0;
/// Least room for the ticks of the vertical axis, so that plots above each other share their time axis.
const TICKS: f64 = 50.0;
/// Room beyond the data, share of an axis.
const ROOM: f64 = 0.04;
/// Height of a line of the categories' names, which may take several.
const NAME_LINE: f64 = 18.0;
/// Curves that the legend names at most: of more it would be larger than the plot.
const NAMED: usize = 24;
/// Points of a line that are marked.
const MARKED: usize = 8;

/// What stands around the data.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Above the plot.
    pub title: &'a str,
    /// Quantity and unit of the horizontal axis.
    pub x: &'a str,
    /// Quantity and unit of the vertical axis.
    pub y: &'a str,
    /// Width and height, pixels; a legend of more than two lines makes it higher, and names of categories that take
    /// more than one.
    pub size: (u32, u32),
}

/// A named line or point set.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name in the legend.
    pub label: String,
    /// The data; points that are not finite are left out, and break a line.
    pub points: Vec<(f64, f64)>,
}

/// What is drawn besides the curves: a dashed line with a name.
enum Reference<'a> {
    None,
    /// Horizontal, at this height.
    At(f64, &'a str),
    /// Through these points.
    Through(&'a [(f64, f64)], &'a str),
}

/// Lines over a common axis; `reference` draws a dashed horizontal line with a name.
pub fn lines(frame: &Frame<'_>, curves: &[Curve], reference: Option<(f64, &str)>) -> Picture {
    let reference = reference.map_or(Reference::None, |(height, name)| Reference::At(height, name));
    draw(frame, curves, reference, (None, 0.0), |plot, _, style, points| {
        for run in points.split(|p| !finite(p)).filter(|run| !run.is_empty()) {
            plot.path(style, run);
        }
        let known: Vec<&(f64, f64)> = points.iter().filter(|p| finite(p)).collect();
        let every = known.len().div_ceil(MARKED).max(1);
        for point in known.iter().skip(every / 2).step_by(every) {
            plot.marker(style, **point, 4.0, 1.0);
        }
    })
}

/// Points alone.
pub fn dots(frame: &Frame<'_>, curves: &[Curve]) -> Picture {
    draw(frame, curves, Reference::None, (None, 0.0), |plot, _, style, points| {
        for point in points.iter().filter(|p| finite(p)) {
            plot.marker(style, *point, 4.5, 0.85);
        }
    })
}

/// Points of runs: costs along the horizontal axis, gains along the vertical one. Where a curve has several, its mean is
/// larger; of three or more, an ellipse shows their standard deviation (1 σ, with their correlation). A dashed line joins
/// the means of the Pareto front.
pub fn points(frame: &Frame<'_>, curves: &[Curve]) -> Picture {
    let means: Vec<(f64, f64)> = curves.iter().map(|curve| mean(&curve.points)).collect();
    let mut best: Vec<(f64, f64)> = front(&means).into_iter().map(|at| means[at]).collect();
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    let reference = match best.len() {
        0 | 1 => Reference::None,
        _ => Reference::Through(&best, "Pareto front"),
    };
    draw(frame, curves, reference, (None, ROOM), |plot, _, style, points| {
        let known: Vec<(f64, f64)> = points.iter().copied().filter(finite).collect();
        for point in &known {
            plot.marker(style, *point, 4.5, if known.len() > 1 { 0.45 } else { 1.0 });
        }
        if known.len() > 2 {
            plot.ellipse(style, &known);
        }
        if known.len() > 1 {
            plot.mean(style, mean(&known));
        }
    })
}

/// The numbers of the points that no other one dominates: none has at most their cost (x) and at least their gain (y), and
/// one of both better. Points that are not finite are in no front.
pub fn front(points: &[(f64, f64)]) -> Vec<usize> {
    let better = |a: &(f64, f64), b: &(f64, f64)| a.0 <= b.0 && a.1 >= b.1 && a != b;
    let known = |at: &usize| finite(&points[*at]);
    let dominated = |at: &usize| points.iter().any(|other| finite(other) && better(other, &points[*at]));
    (0..points.len()).filter(known).filter(|at| !dominated(at)).collect()
}

/// The mean of those that are finite; NaN of none.
fn mean(points: &[(f64, f64)]) -> (f64, f64) {
    let known: Vec<&(f64, f64)> = points.iter().filter(|p| finite(p)).collect();
    let of = |part: fn(&(f64, f64)) -> f64| known.iter().map(|p| part(p)).sum::<f64>() / known.len() as f64;
    (of(|p| p.0), of(|p| p.1))
}

/// Lines with their points marked, the first one larger: where a sweep begins.
pub fn trails(frame: &Frame<'_>, curves: &[Curve]) -> Picture {
    draw(frame, curves, Reference::None, (None, ROOM), |plot, _, style, points| {
        let known: Vec<(f64, f64)> = points.iter().copied().filter(finite).collect();
        plot.path(style, &known);
        for (index, point) in known.iter().enumerate() {
            plot.marker(style, *point, if index == 0 { 7.5 } else { 4.0 }, 1.0);
        }
    })
}

/// Bars side by side in categories; a point's x is the number of its category.
pub fn bars(frame: &Frame<'_>, categories: &[String], curves: &[Curve]) -> Picture {
    let labels: Vec<&str> = curves.iter().map(|curve| curve.label.as_str()).collect();
    let looks = styles(&labels);
    let shared = |style: Style| looks.iter().filter(|look| look.colour == style.colour).count() > 1;
    // Bars of a category share 80 % of its width, and stand in the middle of it.
    let width = 0.8 / curves.len().max(1) as f64;
    draw(frame, curves, Reference::None, (Some(categories), 0.0), |plot, index, style, points| {
        for &(x, y) in points.iter().filter(|p| finite(p)) {
            let from = x + 0.1 + width * index as f64;
            plot.bar(style, from, from + width, y);
            if shared(style) {
                plot.mark_bar(style, (from + width / 2.0, y));
            }
        }
    })
}

fn finite(p: &(f64, f64)) -> bool {
    p.0.is_finite() && p.1.is_finite()
}

/// The area of the data while it is drawn.
struct Plot {
    out: String,
    x: Axis,
    y: Axis,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Plot {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let x = self.left + (self.right - self.left) * self.x.place(x);
        (x, self.bottom - (self.bottom - self.top) * self.y.place(y))
    }

    fn path(&mut self, style: Style, points: &[(f64, f64)]) {
        let mut d = String::new();
        for (index, point) in points.iter().enumerate() {
            let (x, y) = self.at(*point);
            let _ = write!(d, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
        }
        let width = if style.subject { 2.8 } else { 1.6 };
        let dashes = if style.dashed { " stroke-dasharray=\"7 4\"" } else { "" };
        let colour = style.colour;
        let _ = writeln!(
            self.out,
            "<path class=\"ap-s{colour}\" fill=\"none\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dashes} d=\"{d}\"/>"
        );
    }

    fn marker(&mut self, style: Style, point: (f64, f64), size: f64, opacity: f64) {
        let size = if style.subject { 1.25 * size } else { size };
        self.shape(style, self.at(point), size, opacity);
    }

    /// The marker above a bar, where its colour alone does not say whose it is.
    fn mark_bar(&mut self, style: Style, (x, y): (f64, f64)) {
        let (x, top) = self.at((x, y.max(0.0)));
        self.shape(style, (x, top - 6.0), 3.5, 1.0);
    }

    fn shape(&mut self, style: Style, place: (f64, f64), size: f64, opacity: f64) {
        let shape = shape(style.marker, place, size);
        let _ = writeln!(
            self.out,
            "<path class=\"ap-f{}\" fill-opacity=\"{opacity}\" d=\"{shape}\"/>",
            style.colour
        );
    }

    /// A large point with a ring around it.
    fn mean(&mut self, style: Style, point: (f64, f64)) {
        self.marker(style, point, 6.5, 1.0);
        let ring = shape(style.marker, self.at(point), if style.subject { 12.5 } else { 10.0 });
        let _ = writeln!(
            self.out,
            "<path class=\"ap-s{}\" fill=\"none\" stroke-width=\"1.8\" d=\"{ring}\"/>",
            style.colour
        );
    }

    /// The standard deviation of points in every direction. Axes are linear: it is that of their places.
    fn ellipse(&mut self, style: Style, points: &[(f64, f64)]) {
        let places: Vec<(f64, f64)> = points.iter().map(|point| self.at(*point)).collect();
        let (x, y) = mean(&places);
        let over = (places.len() - 1) as f64;
        let sum =
            |of: &dyn Fn(f64, f64) -> f64| places.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>() / over;
        let (xx, xy, yy) = (sum(&|dx, _| dx * dx), sum(&|dx, dy| dx * dy), sum(&|_, dy| dy * dy));
        // Eigenvalues of the covariance, and the direction of the larger one.
        let (middle, half) = ((xx + yy) / 2.0, ((xx - yy) / 2.0).hypot(xy));
        let (long, short) = ((middle + half).sqrt(), (middle - half).max(0.0).sqrt());
        let turn = (2.0 * xy).atan2(xx - yy).to_degrees() / 2.0;
        let colour = style.colour;
        let _ = writeln!(
            self.out,
            "<ellipse class=\"ap-s{colour} ap-f{colour}\" fill-opacity=\"0.12\" stroke-opacity=\"0.7\" cx=\"{x:.1}\" \
             cy=\"{y:.1}\" rx=\"{long:.1}\" ry=\"{short:.1}\" transform=\"rotate({turn:.1} {x:.1} {y:.1})\"/>"
        );
    }

    fn bar(&mut self, style: Style, from: f64, to: f64, y: f64) {
        let ((x, top), (end, base)) = (self.at((from, y.max(0.0))), self.at((to, y.min(0.0))));
        let (width, height) = ((end - x - 1.0).max(1.0), base - top);
        let colour = style.colour;
        let _ = writeln!(
            self.out,
            "<rect class=\"ap-f{colour}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    fn grid(&mut self, frame: &Frame<'_>, categories: Option<&[String]>) {
        let Plot { left, right, top, bottom, .. } = *self;
        for (value, label) in self.y.ticks() {
            let y = self.at((0.0, value)).1;
            line(&mut self.out, "ap-grid", (left, y), (right, y), false);
            text(&mut self.out, (left - 7.0, y + 5.0), "ap-soft", "end", LABEL, &label);
        }
        let ticks = match categories {
            None => self.x.ticks(),
            Some(names) => (0u32..).map(|at| f64::from(at) + 0.5).zip(names.iter().cloned()).collect(),
        };
        let rows = name_rows(frame, categories);
        for (number, (value, label)) in ticks.into_iter().enumerate() {
            let x = self.at((value, 0.0)).0;
            if categories.is_none() {
                line(&mut self.out, "ap-grid", (x, top), (x, bottom), false);
            }
            let y = bottom + 19.0 + NAME_LINE * (number % rows) as f64;
            text(&mut self.out, (x, y), "ap-soft", "middle", LABEL, &label);
        }
        line(&mut self.out, "ap-axis", (left, bottom), (right, bottom), false);
        let y = bottom + 38.0 + NAME_LINE * (rows - 1) as f64;
        text(&mut self.out, (right, y), "ap-ink", "end", LABEL, frame.x);
        text(&mut self.out, (EDGE, top - 9.0), "ap-ink", "start", LABEL, frame.y);
    }
}

/// Lines that the names of categories take in turn, so that none runs into the next one of its line.
fn name_rows(frame: &Frame<'_>, categories: Option<&[String]>) -> usize {
    let names = categories.unwrap_or_default();
    let widest = names.iter().map(|name| width_of(name, LABEL)).fold(0.0, f64::max);
    let room = (f64::from(frame.size.0) - TICKS - EDGE) / names.len().max(1) as f64;
    (widest / room).ceil().max(1.0) as usize
}

/// The outline of a marker as a path.
fn shape(marker: Marker, (x, y): (f64, f64), r: f64) -> String {
    let polygon = |corners: &[(f64, f64)]| {
        let corner = |(dx, dy): &(f64, f64)| format!("{:.1} {:.1}", x + r * dx, y + r * dy);
        format!("M{}Z", corners.iter().map(corner).collect::<Vec<_>>().join("L"))
    };
    match marker {
        Marker::Circle => {
            let (left, d) = (x - r, 2.0 * r);
            format!("M{left:.1} {y:.1}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z")
        }
        Marker::Square => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        Marker::Triangle => polygon(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
        Marker::Diamond => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        Marker::Down => polygon(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
    }
}

/// Title and legend, in as many lines as the names take, and how many more there are; returns where they end.
fn head(out: &mut String, frame: &Frame<'_>, named: &[(&str, Option<Style>)], more: usize) -> f64 {
    let (mut x, mut y) = (EDGE, HEAD_LINE);
    text(out, (x, y), "ap-ink", "start", TITLE, frame.title);
    y += HEAD_LINE;
    for (name, style) in named {
        let width = SWATCH + width_of(name, LABEL) + EDGE;
        if x > EDGE && x + width > f64::from(frame.size.0) {
            (x, y) = (EDGE, y + HEAD_LINE);
        }
        let (middle, class) =
            ((x + 13.0, y - 5.0), style.map_or("ap-axis".to_string(), |s| format!("ap-s{}", s.colour)));
        let dashed = style.is_none_or(|style| style.dashed);
        line(out, &format!("{class}\" stroke-width=\"2"), (x, y - 5.0), (x + 26.0, y - 5.0), dashed);
        if let Some(style) = style {
            let _ = writeln!(
                out,
                "<path class=\"ap-f{}\" d=\"{}\"/>",
                style.colour,
                shape(style.marker, middle, 5.0)
            );
        }
        text(out, (x + SWATCH, y), "ap-ink", "start", LABEL, name);
        x += width;
    }
    if more > 0 {
        y += HEAD_LINE;
        text(out, (EDGE, y), "ap-ink", "start", LABEL, &format!("and {more} more"));
    }
    y
}

/// `across`: room beyond the data along the horizontal axis, share of it.
fn draw(
    frame: &Frame<'_>,
    curves: &[Curve],
    reference: Reference<'_>,
    (categories, across): (Option<&[String]>, f64),
    mut data: impl FnMut(&mut Plot, usize, Style, &[(f64, f64)]),
) -> Picture {
    let labels: Vec<&str> = curves.iter().map(|curve| curve.label.as_str()).collect();
    let styles = styles(&labels);
    let mut named: Vec<(&str, Option<Style>)> =
        labels.iter().copied().zip(styles.iter().map(|style| Some(*style))).take(NAMED).collect();
    named.extend(match reference {
        Reference::None => None,
        Reference::At(_, name) | Reference::Through(_, name) => Some((name, None)),
    });
    let mut out = String::new();
    let head = head(&mut out, frame, &named, labels.len().saturating_sub(NAMED));
    let width = f64::from(frame.size.0);
    let names = NAME_LINE * (name_rows(frame, categories) - 1) as f64;
    let height = f64::from(frame.size.1) + (head - HEAD_LINES * HEAD_LINE).max(0.0) + names;
    let whole = height as u32;
    let (top, bottom) = (head + 34.0, height - FOOT - names);
    let known = || curves.iter().flat_map(|curve| &curve.points).copied().filter(finite);
    let base = categories.map(|_| 0.0);
    let height = match reference {
        Reference::At(height, _) => Some(height),
        _ => None,
    };
    let heights = known().map(|p| p.1).chain(height).chain(base);
    let y = Axis::around(heights, (bottom - top) / Y_TICK, ROOM);
    let widest = y.ticks().iter().map(|(_, label)| width_of(label, LABEL)).fold(0.0, f64::max);
    let (left, right) = ((EDGE + widest + 6.0).max(TICKS), width - EDGE - 8.0);
    let x = match categories {
        Some(names) => Axis::categories(names.len()),
        None => Axis::around(known().map(|p| p.0), (right - left) / X_TICK, across),
    };
    let mut plot = Plot { out, x, y, left, right, top, bottom };
    plot.grid(frame, categories);
    let dashes: Vec<(f64, f64)> = match reference {
        Reference::None => Vec::new(),
        Reference::At(value, _) => {
            let height = plot.at((0.0, value)).1;
            vec![(left, height), (right, height)]
        }
        Reference::Through(points, _) => points.iter().map(|point| plot.at(*point)).collect(),
    };
    for pair in dashes.windows(2) {
        line(&mut plot.out, "ap-axis\" stroke-width=\"2", pair[0], pair[1], true);
    }
    let mut order: Vec<usize> = (0..curves.len()).collect();
    order.sort_by_key(|&index| styles[index].subject);
    for index in order {
        data(&mut plot, index, styles[index], &curves[index].points);
    }
    Picture { width: frame.size.0, height: whole, body: plot.out }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame<'_> = Frame { title: "t <&>", x: "time (s)", y: "rate (Mbps)", size: (600, 300) };

    fn curve(label: &str, points: Vec<(f64, f64)>) -> Curve {
        Curve { label: label.to_string(), points }
    }

    #[test]
    fn a_long_legend_takes_no_room_from_the_data() {
        let of = |count: usize| {
            let curve = |n| Curve { label: format!("algorithm {n}"), points: vec![(0.0, 1.0), (1.0, 2.0)] };
            lines(&FRAME, &(0..count).map(curve).collect::<Vec<_>>(), None).height
        };
        assert_eq!([of(1), of(8)], [300, 300]);
        assert_eq!((of(24) - of(20)) % HEAD_LINE as u32, 0);
        assert!(of(24) > 350);
        assert_eq!([of(25), of(200)], [of(24) + HEAD_LINE as u32; 2]);
    }

    #[test]
    fn a_line_is_broken_where_data_is_missing() {
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 1.0)];
        let svg = lines(&FRAME, &[curve("anole", points)], Some((48.0, "capacity"))).svg();
        assert_eq!(svg.matches("stroke-linejoin").count(), 2, "{svg}");
        assert!(svg.contains("t &lt;&amp;&gt;") && svg.contains("capacity") && !svg.contains("NaN"), "{svg}");
        assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("viewBox=\"0 0 600 300\""));
    }

    #[test]
    fn the_subject_is_drawn_last_and_means_are_marked() {
        let runs = |at: f64| vec![(at, 1.0), (at + 1.0, 2.0)];
        let svg = points(&FRAME, &[curve("anole", runs(1.0)), curve("cubic", runs(5.0))]).svg();
        let body = svg.split_once("rate (Mbps)").unwrap().1;
        assert!(body.find("ap-f0").unwrap() > body.rfind("ap-f1").unwrap(), "{body}");
        assert_eq!(body.matches("stroke-width=\"1.8\"").count(), 2, "{body}");
    }

    #[test]
    fn scatter_is_an_ellipse_and_the_best_means_are_joined() {
        let cross = |x: f64, y: f64| vec![(x - 1.0, y), (x + 1.0, y), (x, y - 2.0), (x, y + 2.0)];
        let curves = [
            curve("anole", cross(5.0, 9.0)),
            curve("cubic", cross(9.0, 12.0)),
            curve("bbr", cross(9.0, 8.0)),
        ];
        let svg = points(&FRAME, &curves).svg();
        assert_eq!(svg.matches("<ellipse").count(), 3, "{svg}");
        assert!(svg.contains("Pareto front") && !svg.contains("NaN"), "{svg}");
        // Two means of three are on the front: one dashed line besides that of the legend.
        assert_eq!(svg.matches("stroke-dasharray=\"5 4\"").count(), 2, "{svg}");
        assert!(!points(&FRAME, &curves[..1]).svg().contains("Pareto front"));
        let means = [(1.0, 1.0), (2.0, 3.0), (2.0, 2.0), (f64::NAN, 9.0), (0.5, 0.5), (2.0, 3.0)];
        assert_eq!(front(&means), [0, 1, 4, 5]);
    }

    #[test]
    fn an_ellipse_lies_along_what_is_correlated() {
        let along = vec![(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)];
        let svg = points(&FRAME, &[curve("anole", along)]).svg();
        let ellipse = svg.lines().find(|line| line.contains("<ellipse")).unwrap();
        // All on one line: no width.
        assert!(ellipse.contains("ry=\"0.0\"") && !ellipse.contains("rotate(0.0"), "{ellipse}");
    }

    #[test]
    fn names_of_categories_that_would_overlap_take_several_lines() {
        let of = |name: &str| {
            let names: Vec<String> = (0..6).map(|n| format!("{name}{n}")).collect();
            bars(&FRAME, &names, &[curve("anole", vec![(0.0, 1.0)])])
        };
        assert_eq!(of("short").height, 300);
        let long = of("LTE, stationary");
        let at = |name: &str| {
            let svg = long.svg();
            let line = svg.lines().find(|line| line.contains(name)).unwrap();
            line.split('"').nth(3).unwrap().parse::<f64>().unwrap()
        };
        assert_eq!(long.height, 318);
        assert_eq!(
            [at("stationary1") - at("stationary0"), at("stationary2") - at("stationary0")],
            [18.0, 0.0]
        );
    }

    #[test]
    fn bars_of_one_colour_are_told_apart_by_markers() {
        let of = |labels: &[&str]| {
            let curves: Vec<Curve> = labels.iter().map(|label| curve(label, vec![(0.0, 1.0)])).collect();
            let svg = bars(&FRAME, &["x".to_string()], &curves).svg();
            let body = svg.split_once("rate (Mbps)").unwrap().1;
            (body.matches("<rect").count(), body.matches("<path").count())
        };
        assert_eq!(of(&["anole", "c-libra", "cubic"]), (3, 2));
        assert_eq!(of(&["anole", "bbr", "cubic"]), (3, 0));
    }

    #[test]
    fn nothing_to_draw_is_still_a_plot() {
        for picture in [points(&FRAME, &[curve("none", vec![])]), bars(&FRAME, &[], &[]), trails(&FRAME, &[])]
        {
            assert!(picture.svg().trim_end().ends_with("</svg>"));
        }
    }
}
