//! The picture of an experiment: panels below each other, in the form of the source's figure.

use crate::output::csv_field;
use anole_plot::{self as plot, Curve, Frame};

/// Width and height of a panel, pixels.
const PANEL: (u32, u32) = (plot::WIDTH, 330);

/// How a panel shows its series.
#[derive(Clone, Debug, PartialEq)]
pub enum PanelKind {
    /// A dot per run.
    Points,
    /// A line through the points, and a dashed one at a height with a name.
    Lines(Option<(f64, String)>),
    /// A line with its points marked, the first one larger.
    Trail,
    /// A bar per series in each of these categories; a point's x is the category's number.
    Bars(Vec<String>),
}

/// One plot.
pub struct Panel {
    /// Above it.
    pub title: String,
    /// Quantity and unit of the horizontal axis.
    pub x: String,
    /// Quantity and unit of the vertical axis.
    pub y: String,
    /// How.
    pub kind: PanelKind,
    /// What.
    pub series: Vec<Curve>,
}

impl Panel {
    /// A panel without series.
    pub fn new(
        title: impl Into<String>,
        x: impl Into<String>,
        y: impl Into<String>,
        kind: PanelKind,
    ) -> Panel {
        Panel { title: title.into(), x: x.into(), y: y.into(), kind, series: Vec::new() }
    }

    /// The panel with one more series.
    pub fn with(mut self, label: impl Into<String>, points: Vec<(f64, f64)>) -> Panel {
        self.series.push(Curve { label: label.into(), points });
        self
    }

    fn draw(&self) -> plot::Picture {
        let frame = Frame { title: &self.title, x: &self.x, y: &self.y, size: PANEL };
        match &self.kind {
            PanelKind::Points => plot::points(&frame, &self.series),
            PanelKind::Trail => plot::trails(&frame, &self.series),
            PanelKind::Bars(categories) => plot::bars(&frame, categories, &self.series),
            PanelKind::Lines(reference) => {
                let reference = reference.as_ref().map(|(height, name)| (*height, name.as_str()));
                plot::lines(&frame, &self.series, reference)
            }
        }
    }
}

/// All panels as one SVG.
pub fn draw(panels: &[Panel]) -> String {
    let parts: Vec<plot::Picture> = panels.iter().map(Panel::draw).collect();
    plot::stacked(&parts).svg()
}

/// What is drawn, as CSV: a line per point.
pub fn csv(panels: &[Panel]) -> String {
    let mut out = String::from("panel,series,x,y\n");
    for panel in panels {
        for series in &panel.series {
            for (x, y) in &series.points {
                let names = [&panel.title, &series.label].map(|name| csv_field(name));
                out += &format!("{},{},{x},{y}\n", names[0], names[1]);
            }
        }
    }
    out
}

/// The cumulative distribution of some values: from (smallest, 0) to (largest, 1).
pub fn cdf(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let mut points: Vec<(f64, f64)> = sorted.first().map(|&x| (x, 0.0)).into_iter().collect();
    points.extend(sorted.iter().zip(1u32..).map(|(&x, rank)| (x, f64::from(rank) / count)));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_of_every_kind_make_one_picture_and_their_points_a_table() {
        let kinds = [
            PanelKind::Points,
            PanelKind::Lines(Some((1.0, "capacity".to_string()))),
            PanelKind::Trail,
            PanelKind::Bars(vec!["a".to_string(), "b <c>".to_string()]),
        ];
        let panel = |kind: &PanelKind| {
            Panel::new("Fig, 1", "x", "y", kind.clone()).with("anole", vec![(0.0, 1.0), (1.0, 2.0)])
        };
        let panels: Vec<Panel> = kinds.iter().map(panel).collect();
        let svg = draw(&panels);
        assert_eq!((svg.matches("<svg").count(), svg.matches("Fig, 1").count()), (1, 4));
        assert!(svg.contains("height=\"1320\"") && svg.contains("b &lt;c&gt;"), "{svg}");
        assert_eq!(csv(&panels[..1]), "panel,series,x,y\n\"Fig, 1\",anole,0,1\n\"Fig, 1\",anole,1,2\n");
    }

    #[test]
    fn a_distribution_rises_from_0_to_1() {
        assert_eq!(cdf(&[3.0, 1.0, f64::NAN]), [(1.0, 0.0), (1.0, 0.5), (3.0, 1.0)]);
        assert_eq!(cdf(&[]), []);
    }
}
