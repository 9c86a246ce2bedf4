//! The plots of an experiment: drawn from its runs as its file says.

use super::figures::number;
use super::file::{Names, Raw, RawPanel, RawPanelKind, fill};
use super::measure::Measure;
use super::outcome::{Contender, Results, mean};
use super::picture::{Panel, PanelKind, cdf};
use anole_policies::Shipped;
use anole_sim::result::RunResult;

/// Every panel of an experiment whose subject has this label.
pub fn panels(raw: &Raw, subject: &str, results: &Results) -> Result<Vec<Panel>, String> {
    let mut panels = Vec::new();
    for panel in &raw.panels {
        let at = |error: String| format!("panel \"{}\": {error}", panel.title);
        for names in raw.combinations(&panel.over, subject).map_err(at)? {
            let drawing = Drawing { raw, panel, names, results };
            panels.extend(drawing.panels().map_err(at)?);
        }
    }
    Ok(panels)
}

/// A contender as in legends and tables: a learned peer says whose weights it has.
pub fn legend(contender: &Contender) -> String {
    let Contender { label, choice, .. } = contender;
    let learned = |alg: &String| anole_algorithms::find(alg).is_ok_and(|spec| spec.kind == "learned");
    if !choice.alg.as_ref().is_some_and(|alg| alg == label && learned(alg)) {
        return label.clone();
    }
    match &choice.policy {
        Some(file) if file.contains('/') || file.ends_with(".safetensors") => {
            format!("{label}, {}", file.rsplit('/').next().unwrap_or(file))
        }
        Some(name) if Shipped::bytes(name).is_none() => format!("{label}, {name}"),
        _ => format!("{label}, trained here"),
    }
}

/// One panel of the file, with its names.
struct Drawing<'a> {
    raw: &'a Raw,
    panel: &'a RawPanel,
    names: Names,
    results: &'a Results,
}

impl Drawing<'_> {
    fn panels(&self) -> Result<Vec<Panel>, String> {
        match self.panel.kind {
            RawPanelKind::Points => self.settings()?.iter().map(|setting| self.points(setting)).collect(),
            RawPanelKind::Lines => Ok(vec![self.lines()?]),
            RawPanelKind::Trail => Ok(vec![self.trail()?]),
            RawPanelKind::Bars => Ok(vec![self.bars()?]),
            RawPanelKind::Distribution => Ok(vec![self.distribution()?]),
            RawPanelKind::OverTime => Ok(vec![self.over_time()?]),
            RawPanelKind::Flows => self.contenders()?.iter().map(|who| self.flows(who)).collect(),
        }
    }

    fn empty(&self, names: &Names, kind: PanelKind) -> Result<Panel, String> {
        let panel = self.panel;
        Ok(Panel::new(fill(&panel.title, names)?, fill(&panel.x, names)?, fill(&panel.y, names)?, kind))
    }

    /// The setting that the panel names, or all.
    fn settings(&self) -> Result<Vec<String>, String> {
        let all = self.results.settings();
        match &self.panel.setting {
            None => Ok(all.into_iter().map(str::to_string).collect()),
            Some(setting) => Ok(vec![self.setting(setting, &self.names)?]),
        }
    }

    fn setting(&self, name: &str, names: &Names) -> Result<String, String> {
        let (name, all) = (fill(name, names)?, self.results.settings());
        match all.contains(&name.as_str()) {
            true => Ok(name),
            false => Err(format!("no setting \"{name}\"; there are {}", all.join(", "))),
        }
    }

    fn contenders(&self) -> Result<Vec<String>, String> {
        match &self.panel.contenders[..] {
            [] => Ok(self.results.contenders().into_iter().map(str::to_string).collect()),
            named => named.iter().map(|who| fill(who, &self.names)).collect(),
        }
    }

    fn legend(&self, label: &str) -> String {
        let cell =
            self.results.0.iter().map(|outcome| &outcome.cell).find(|cell| cell.contender.label == label);
        cell.map_or(label.to_string(), |cell| legend(&cell.contender))
    }

    fn measure(&self) -> Result<&Measure, String> {
        self.panel.measure.as_ref().ok_or_else(|| "say what is measured (measure = …)".to_string())
    }

    fn across(&self) -> Result<&Measure, String> {
        self.panel
            .x_measure
            .as_ref()
            .ok_or_else(|| "say what the horizontal axis has (x_measure = …)".to_string())
    }

    /// A mean over the runs of a cell, scaled.
    fn mean(&self, setting: &str, who: &str, measure: &Measure) -> f64 {
        self.panel.scale * mean(&self.results.each(setting, who, |run| measure.of(run)))
    }

    fn reference(&self, names: &Names) -> Result<PanelKind, String> {
        let Some(line) = &self.panel.reference else { return Ok(PanelKind::Lines(None)) };
        let at = number(&line.at, names)?;
        let label = fill(&line.label, names)?;
        Ok(PanelKind::Lines(at.map(|at| (at, label))))
    }

    fn points(&self, setting: &str) -> Result<Panel, String> {
        let (x, y) = (self.across()?, self.measure()?);
        let mut names = self.names.clone();
        names.insert("setting".to_string(), setting.to_string());
        let mut panel = self.empty(&names, PanelKind::Points)?;
        for who in self.contenders()? {
            let of = |measure: &Measure| self.results.each(setting, &who, |run| measure.of(run));
            let heights = of(y).into_iter().map(|y| self.panel.scale * y);
            panel = panel.with(self.legend(&who), of(x).into_iter().zip(heights).collect());
        }
        Ok(panel)
    }

    /// The entries of the axis that the panel runs along: names, and the entry's number.
    fn along(&self) -> Result<Vec<(Names, Option<f64>)>, String> {
        let along = self.panel.along.as_ref().ok_or("say along which axis (along = …)")?;
        let axis = along.split('.').next().unwrap_or_default().to_string();
        let mut entries = Vec::new();
        for own in self.raw.combinations(&[axis], "")? {
            let mut names = self.names.clone();
            names.extend(own.into_iter().filter(|(name, _)| name != "subject"));
            let x = names.get(along).and_then(|text| text.parse().ok());
            entries.push((names, x));
        }
        Ok(entries)
    }

    /// The setting at an entry: the panel's, or the only one.
    fn place(&self, names: &Names) -> Result<String, String> {
        match (&self.panel.setting, &self.results.settings()[..]) {
            (Some(setting), _) => self.setting(setting, names),
            (None, [only]) => Ok(only.to_string()),
            (None, _) => Err("say in which setting".to_string()),
        }
    }

    fn lines(&self) -> Result<Panel, String> {
        let measure = self.measure()?;
        let mut panel = self.empty(&self.names, self.reference(&self.names)?)?;
        let entries = self.along()?;
        let line = |who: &dyn Fn(&Names) -> Result<String, String>| {
            let point = |(names, x): &(Names, Option<f64>)| {
                let x = x.ok_or_else(|| {
                    format!("along = \"{}\" is no axis of numbers", self.panel.along.as_deref().unwrap_or(""))
                })?;
                Ok((x, self.mean(&self.place(names)?, &who(names)?, measure)))
            };
            entries.iter().map(point).collect::<Result<Vec<_>, String>>()
        };
        if let (Some(label), [who]) = (&self.panel.label, &self.panel.contenders[..]) {
            let points = line(&|names: &Names| fill(who, names))?;
            return Ok(panel.with(fill(label, &self.names)?, points));
        }
        for who in self.contenders()? {
            panel = panel.with(self.legend(&who), line(&|_: &Names| Ok(who.clone()))?);
        }
        Ok(panel)
    }

    fn trail(&self) -> Result<Panel, String> {
        let (x, y) = (self.across()?, self.measure()?);
        let mut panel = self.empty(&self.names, PanelKind::Trail)?;
        for who in self.contenders()? {
            let point = |setting: &String| {
                let across = mean(&self.results.each(setting, &who, |run| x.of(run)));
                (across, self.mean(setting, &who, y))
            };
            panel = panel.with(self.legend(&who), self.settings()?.iter().map(point).collect());
        }
        Ok(panel)
    }

    /// Categories of bars: label, setting, names.
    fn categories(&self) -> Result<Vec<(String, String, Names)>, String> {
        if self.panel.along.is_none() {
            let all = self.settings()?.into_iter();
            return Ok(all.map(|setting| (setting.clone(), setting, self.names.clone())).collect());
        }
        let category = |(names, _): (Names, Option<f64>)| {
            let setting = self.place(&names)?;
            let label = match &self.panel.category {
                Some(category) => fill(category, &names)?,
                None => setting.clone(),
            };
            Ok((label, setting, names))
        };
        self.along()?.into_iter().map(category).collect()
    }

    fn bars(&self) -> Result<Panel, String> {
        let categories = self.categories()?;
        let labels = categories.iter().map(|(label, ..)| label.clone()).collect();
        let mut panel = self.empty(&self.names, PanelKind::Bars(labels))?;
        let numbered = || (0u32..).map(f64::from).zip(&categories);
        let subject = self.names.get("subject").cloned().unwrap_or_default();
        for bar in &self.panel.bars {
            let height = |(x, (_, setting, _)): (f64, &(String, String, Names))| {
                (x, self.mean(setting, &subject, &bar.measure))
            };
            panel = panel.with(fill(&bar.label, &self.names)?, numbered().map(height).collect());
        }
        if !self.panel.bars.is_empty() {
            return Ok(panel);
        }
        let measure = self.measure()?;
        if let (Some(label), [who]) = (&self.panel.label, &self.panel.contenders[..]) {
            let heights = numbered()
                .map(|(x, (_, setting, names))| Ok((x, self.mean(setting, &fill(who, names)?, measure))));
            let heights = heights.collect::<Result<Vec<_>, String>>()?;
            return Ok(panel.with(fill(label, &self.names)?, heights));
        }
        for who in self.contenders()? {
            let heights = numbered().map(|(x, (_, setting, _))| (x, self.mean(setting, &who, measure)));
            panel = panel.with(self.legend(&who), heights.collect());
        }
        Ok(panel)
    }

    fn distribution(&self) -> Result<Panel, String> {
        let measure = self.measure()?;
        let place = self.place(&self.names)?;
        let mut panel = self.empty(&self.names, self.reference(&self.names)?)?;
        for who in self.contenders()? {
            let values = self.results.each(&place, &who, |run| measure.of(run));
            let scaled: Vec<f64> = values.into_iter().map(|value| self.panel.scale * value).collect();
            panel = panel.with(self.legend(&who), cdf(&scaled));
        }
        Ok(panel)
    }

    fn over_time(&self) -> Result<Panel, String> {
        let place = self.place(&self.names)?;
        let mut panel = self.empty(&self.names, self.reference(&self.names)?)?;
        for who in self.contenders()? {
            if let Some(run) = self.results.runs(&place, &who).first() {
                panel = panel.with(self.legend(&who), series(run, 0));
            }
        }
        Ok(panel)
    }

    /// The flows that share a link: their fair share as a line, and Jain's index above.
    fn flows(&self, who: &str) -> Result<Panel, String> {
        let run = self.results.runs(&self.place(&self.names)?, who).first();
        let mut names = self.names.clone();
        names.insert("contender".to_string(), who.to_string());
        let share = run.and_then(|run| Some(run.optimal_mbps? / run.flows.len().max(1) as f64));
        let mut panel =
            self.empty(&names, PanelKind::Lines(share.map(|mbps| (mbps, "fair share".to_string()))))?;
        if let Some(jain) = run.and_then(|run| run.jain_index) {
            panel.title += &format!(": Jain's index {jain:.3}");
        }
        let Some(run) = run else { return Ok(panel) };
        for flow in 0..run.flows.len() {
            let label = match self.panel.flows.get(flow) {
                Some(label) => fill(label, &names)?,
                None => format!("flow {}", flow + 1),
            };
            panel = panel.with(label, series(run, flow));
        }
        Ok(panel)
    }
}

/// The points of a flow's throughput while it is active: seconds and Mbps.
fn series(run: &RunResult, flow: usize) -> Vec<(f64, f64)> {
    let Some(flow) = run.flows.get(flow) else { return Vec::new() };
    let steps = flow.series.throughput_mbps.iter().enumerate();
    let points = steps.map(|(step, &mbps)| (step as f64 * flow.series.dt_s, mbps));
    points.filter(|(at, _)| (flow.start_s..flow.stop_s).contains(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learned_peer_says_whose_weights_it_has() {
        let with = |alg: &str, policy: Option<&str>| {
            let mut contender = Contender::peer(alg);
            contender.choice.policy = policy.map(str::to_string);
            legend(&contender)
        };
        assert_eq!(with("orca", None), "orca, trained here");
        assert_eq!(with("orca", Some("peers/orca-released.safetensors")), "orca, orca-released.safetensors");
        assert_eq!(with("orca", Some("fault:high")), "orca, fault:high");
        assert_eq!([with("cubic", None), with("anole", Some("libra"))], ["cubic", "anole"]);
        let own = Contender { label: "0.1".to_string(), ..Contender::peer("orca") };
        assert_eq!(legend(&own), "0.1");
    }
}
