//! Every flow of every run as a table: CSV for people and scripts, Parquet for data frames.

use super::outcome::Results;
use super::series;
use crate::output::csv_field;
use anole_sim::result::{FlowResult, RunResult};
use anyhow::{Context, Result};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::sync::Arc;

/// One column, a value per row.
#[derive(Clone, Debug, PartialEq)]
enum Column {
    Text(Vec<String>),
    Whole(Vec<i64>),
    /// What was not measured is `None`.
    Number(Vec<Option<f64>>),
    Flag(Vec<bool>),
}

/// Named columns of the same length.
pub struct Table(Vec<(&'static str, Column)>);

/// A figure's name, and how to read it off a run and one of its flows.
type Figure = (&'static str, fn(&RunResult, &FlowResult) -> Option<f64>);

const FIGURES: [Figure; 22] = [
    ("start_s", |_, flow| Some(flow.start_s)),
    ("stop_s", |_, flow| Some(flow.stop_s)),
    ("throughput_mbps", |_, flow| flow.throughput_mbps),
    ("goodput_mbps", |_, flow| flow.goodput_mbps),
    ("owd_mean_ms", |_, flow| flow.owd_mean_ms),
    ("owd_p50_ms", |_, flow| flow.owd_p50_ms),
    ("owd_p95_ms", |_, flow| flow.owd_p95_ms),
    ("owd_p99_ms", |_, flow| flow.owd_p99_ms),
    ("rtt_mean_ms", |_, flow| flow.rtt_mean_ms),
    ("rtt_p95_ms", |_, flow| flow.rtt_p95_ms),
    ("loss_rate", |_, flow| flow.loss_rate),
    ("inferences", |_, flow| flow.inferences.map(|count| count as f64)),
    ("decisions", |_, flow| flow.decisions.map(|count| count as f64)),
    ("applied_rule", |_, flow| flow.applied.map(|share| share.rule)),
    ("applied_learned", |_, flow| flow.applied.map(|share| share.learned)),
    ("applied_inferred", |_, flow| flow.applied.map(|share| share.inferred)),
    ("applied_previous", |_, flow| flow.applied.map(|share| share.previous)),
    ("optimal_mbps", |run, _| run.optimal_mbps),
    ("utilization", |run, _| run.links.first()?.utilization),
    ("queue_delay_p95_ms", |run, _| run.links.first()?.queue_delay_p95_ms),
    ("jain_index", |run, _| run.jain_index),
    ("utility_of_flow_1", |run, _| series::utility(run)),
];

impl Table {
    /// A row for every flow of every run; `quick`: the runs are shorter than the experiment says.
    pub fn of_flows(results: &Results, quick: bool) -> Table {
        let (mut settings, mut contenders, mut algorithms, mut links) = (vec![], vec![], vec![], vec![]);
        let (mut seeds, mut numbers, mut valid) = (vec![], vec![], vec![]);
        let mut figures: Vec<Vec<Option<f64>>> = vec![Vec::new(); FIGURES.len()];
        for outcome in &results.0 {
            for run in &outcome.runs {
                for (number, flow) in (1..).zip(&run.flows) {
                    settings.push(outcome.cell.setting.name.clone());
                    contenders.push(outcome.cell.contender.label.clone());
                    links.push(outcome.cell.setting.links.name().to_string());
                    algorithms.push(flow.alg.clone());
                    seeds.push(run.seed as i64);
                    numbers.push(number);
                    valid.push(run.disturbed.is_none());
                    for (column, (_, of)) in figures.iter_mut().zip(FIGURES) {
                        column.push(of(run, flow).filter(|value| value.is_finite()));
                    }
                }
            }
        }
        let rows = settings.len();
        let mut columns = vec![
            ("setting", Column::Text(settings)),
            ("contender", Column::Text(contenders)),
            ("seed", Column::Whole(seeds)),
            ("flow", Column::Whole(numbers)),
            ("algorithm", Column::Text(algorithms)),
        ];
        columns.extend(FIGURES.iter().map(|(name, _)| *name).zip(figures.into_iter().map(Column::Number)));
        columns.extend([
            ("links", Column::Text(links)),
            ("quick", Column::Flag(vec![quick; rows])),
            ("valid", Column::Flag(valid)),
        ]);
        Table(columns)
    }

    fn rows(&self) -> usize {
        self.0.first().map_or(0, |(_, column)| match column {
            Column::Text(values) => values.len(),
            Column::Whole(values) => values.len(),
            Column::Number(values) => values.len(),
            Column::Flag(values) => values.len(),
        })
    }

    /// As CSV (RFC 4180); what was not measured is empty.
    pub fn csv(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
        let mut out = names.join(",") + "\n";
        for row in 0..self.rows() {
            let field = |(_, column): &(&str, Column)| match column {
                Column::Text(values) => csv_field(&values[row]),
                Column::Whole(values) => values[row].to_string(),
                Column::Number(values) => values[row].map_or(String::new(), |value| value.to_string()),
                Column::Flag(values) => values[row].to_string(),
            };
            out += &(self.0.iter().map(field).collect::<Vec<_>>().join(",") + "\n");
        }
        out
    }

    /// As Apache Parquet, one row group, not compressed; what was not measured is null.
    pub fn parquet(&self) -> Result<Vec<u8>> {
        let write = || -> parquet::errors::Result<Vec<u8>> {
            let fields = self.0.iter().map(|(name, column)| column.field(name));
            let fields = fields.collect::<parquet::errors::Result<_>>()?;
            let schema = Type::group_type_builder("flows").with_fields(fields).build()?;
            let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
            let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
            let mut group = file.next_row_group()?;
            for (_, column) in &self.0 {
                column.write(&mut group)?;
            }
            group.close()?;
            file.into_inner()
        };
        write().context("cannot express the runs as Parquet")
    }
}

impl Column {
    fn field(&self, name: &str) -> parquet::errors::Result<Arc<Type>> {
        let (physical, logical, repetition) = match self {
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
            Column::Whole(_) => (Physical::INT64, None, Repetition::REQUIRED),
            Column::Number(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
            Column::Flag(_) => (Physical::BOOLEAN, None, Repetition::REQUIRED),
        };
        let builder = Type::primitive_type_builder(name, physical);
        Ok(Arc::new(builder.with_logical_type(logical).with_repetition(repetition).build()?))
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> parquet::errors::Result<()> {
        let Some(mut column) = group.next_column()? else { return Ok(()) };
        match self {
            Column::Text(values) => {
                let bytes: Vec<ByteArray> = values.iter().map(|text| text.as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&bytes, None, None)?;
            }
            Column::Whole(values) => {
                column.typed::<Int64Type>().write_batch(values, None, None)?;
            }
            Column::Number(values) => {
                // The values that are there, and for each row whether one is.
                let known: Vec<f64> = values.iter().copied().flatten().collect();
                let there: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
                column.typed::<DoubleType>().write_batch(&known, Some(&there), None)?;
            }
            Column::Flag(values) => {
                column.typed::<BoolType>().write_batch(values, None, None)?;
            }
        }
        column.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn both_forms_hold_the_same() {
        let table = Table(vec![
            ("setting", Column::Text(vec!["a, b".into(), "c".into()])),
            ("seed", Column::Whole(vec![1, 2])),
            ("owd_mean_ms", Column::Number(vec![None, Some(2.5)])),
            ("valid", Column::Flag(vec![true, false])),
        ]);
        assert_eq!(table.csv(), "setting,seed,owd_mean_ms,valid\n\"a, b\",1,,true\nc,2,2.5,false\n");
        let read = SerializedFileReader::new(bytes::Bytes::from(table.parquet().unwrap())).unwrap();
        assert_eq!(read.metadata().file_metadata().num_rows(), 2);
        let rows = read.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string());
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                "{setting: \"a, b\", seed: 1, owd_mean_ms: null, valid: true}",
                "{setting: \"c\", seed: 2, owd_mean_ms: 2.5, valid: false}"
            ]
        );
        let nothing = Table::of_flows(&Results(Vec::new()), false);
        assert_eq!((nothing.csv().lines().count(), nothing.rows()), (1, 0));
        nothing.parquet().unwrap();
    }
}
