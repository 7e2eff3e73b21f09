//! A recorder that keeps what it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// What one name with its labels has come to.
#[derive(Default)]
struct Cell(Mutex<Vec<f64>>);

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        let mut cell = self.0.lock().unwrap();
        let sum = cell.pop().unwrap_or_default() + value as f64;
        cell.push(sum);
    }
    fn absolute(&self, _: u64) {
        panic!("counters are told what has been added");
    }
}

impl GaugeFn for Cell {
    fn increment(&self, _: f64) {
        panic!("gauges are set");
    }
    fn decrement(&self, _: f64) {
        panic!("gauges are set");
    }
    fn set(&self, value: f64) {
        *self.0.lock().unwrap() = vec![value];
    }
}

impl HistogramFn for Cell {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

/// Keeps every number by its name and labels, such as `waiting{pool=app,…}`.
#[derive(Clone, Default)]
pub(crate) struct Kept {
    cells: Arc<Mutex<BTreeMap<String, Arc<Cell>>>>,
    described: Arc<Mutex<BTreeMap<String, &'static str>>>,
    asked: Arc<Mutex<u64>>,
}

impl Kept {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        *self.asked.lock().unwrap() += 1;
        let labels: Vec<String> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        self.cells.lock().unwrap().entry(name).or_default().clone()
    }

    /// The numbers whose name begins with `pgsteer_` and this, and whose labels have all of these in them.
    fn find(&self, name: &str, labels: &[&str]) -> Vec<Vec<f64>> {
        let cells = self.cells.lock().unwrap();
        let fits = |key: &str| {
            let (own, rest) = key.split_once('{').unwrap();
            own == format!("pgsteer_{name}") && labels.iter().all(|label| rest.contains(label))
        };
        cells
            .iter()
            .filter(|(key, _)| fits(key))
            .map(|(_, cell)| cell.0.lock().unwrap().clone())
            .collect()
    }

    /// The one number of this name with these among its labels.
    #[track_caller]
    pub(crate) fn number(&self, name: &str, labels: &[&str]) -> f64 {
        let found = self.find(name, labels);
        match &found[..] {
            [values] if values.len() == 1 => values[0],
            _ => panic!("{name} {labels:?}: {found:?}, {:?}", self.names()),
        }
    }

    /// Every value of a histogram.
    pub(crate) fn values(&self, name: &str) -> Vec<f64> {
        self.find(name, &[]).concat()
    }

    /// The names that have been used, with their labels.
    pub(crate) fn names(&self) -> Vec<String> {
        self.cells.lock().unwrap().keys().cloned().collect()
    }

    /// The names that were described, with their kinds.
    pub(crate) fn described(&self) -> BTreeMap<String, &'static str> {
        self.described.lock().unwrap().clone()
    }

    /// How often anybody asked for a number.
    pub(crate) fn asked(&self) -> u64 {
        *self.asked.lock().unwrap()
    }

    fn describe(&self, name: KeyName, kind: &'static str, text: SharedString) {
        assert!(!text.is_empty());
        self.described
            .lock()
            .unwrap()
            .insert(name.as_str().to_owned(), kind);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, text: SharedString) {
        self.describe(name, "counter", text);
    }
    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, text: SharedString) {
        self.describe(name, "gauge", text);
    }
    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        assert_eq!(unit, Some(Unit::Seconds));
        self.describe(name, "histogram", text);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}
