//! Kindling's server: parameter server, dataset sharder and dashboard, in one binary.
//!
//! The rooms, from the pure core to the edge: [`coordinator`] decides, [`parameters`] holds the centre, [`run`] is the
//! shell around both; [`dataset`] and [`runfile`] say what is trained; [`gateway`] speaks with workers and [`http`]
//! with browsers and scripts; [`headless`] contributes from here; [`store`] is the data folder.

pub mod coordinator;
pub mod data;
pub mod dataset;
pub mod gateway;
pub mod headless;
pub mod http;
pub mod parameters;
pub mod run;
pub mod runfile;
pub mod serve;
pub mod status;
pub mod store;
