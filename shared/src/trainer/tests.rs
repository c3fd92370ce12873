//! What the trainer promises, on the CPU.

use std::sync::Arc;

use super::*;
use crate::data::{Features, Shard, Transform};
use crate::model::{Layer, Loss, ModelSpec, Padding, infer_layout, initial_parameters};
use crate::random::Stream;
use crate::run::{DataPlan, StrategySettings, WorkerSettings};

/// Runs a future that is never pending: the CPU answers at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the CPU device must answer at once"),
    }
}

struct Always;
impl Pacer for Always {
    async fn between_steps(&mut self) -> Between {
        Between::GoOn
    }
}

fn plan(layers: Vec<Layer>, optimizer: OptimizerSettings) -> RunPlan {
    RunPlan {
        id: "test".into(),
        name: "test".into(),
        seed: 1,
        data: DataPlan {
            sample_shape: vec![1, 4, 4],
            classes: 3,
            train_samples: 30,
            shards: 1,
            bytes: 0,
            transforms: vec![Transform::Scale { by: 1.0 / 16.0 }],
        },
        model: ModelSpec { loss: Loss::CrossEntropy, layers },
        worker: WorkerSettings { batch_size: 8, optimizer },
        strategy: StrategySettings::default(),
    }
}

fn small_cnn() -> Vec<Layer> {
    vec![
        Layer::Conv2d { filters: 4, kernel_size: 3, stride: 1, padding: Padding::Same },
        Layer::Relu {},
        Layer::MaxPool2d { size: 2, stride: None },
        Layer::Flatten {},
        Layer::Dropout { rate: 0.1 },
        Layer::Linear { units: 3 },
    ]
}

/// Three classes that differ in which rows are bright.
fn samples(count: usize) -> BatchSource {
    let mut stream = Stream::new(3, "samples", &[]);
    let labels: Vec<u32> = (0..count).map(|_| stream.below(3)).collect();
    let features: Vec<u8> = labels
        .iter()
        .flat_map(|&label| (0..16).map(move |pixel| (label, pixel / 4)))
        .map(|(label, row)| if row == label { 12 } else { 1 } + (stream.unit() * 4.0) as u8)
        .collect();
    let shard = Arc::new(Shard { sample_shape: vec![1, 4, 4], features: Features::U8(features.into()), labels });
    let order = (0..count as u32).map(|sample| (Arc::clone(&shard), sample)).collect();
    BatchSource::new(order, 8, [Transform::Scale { by: 1.0 / 16.0 }].into())
}

fn trainer(plan: &RunPlan) -> (Trainer, Layout) {
    let layout = infer_layout(&plan.model, &plan.data.sample_shape, plan.data.classes).expect("fits");
    let mut trainer = Trainer::new(plan, &layout, &Device::flex());
    trainer.load(&initial_parameters(&layout, 1));
    (trainer, layout)
}

#[test]
fn training_lowers_the_loss_and_the_evaluation_agrees() {
    let adam = OptimizerSettings::Adam { learning_rate: 0.01, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8 };
    let plan = plan(small_cnn(), adam);
    let (mut trainer, layout) = trainer(&plan);
    let source = samples(60);
    let first = now(trainer.window(&source, &mut Always)).expect("runs").expect("not abandoned");
    assert_eq!((first.steps, first.samples), (8, 60));
    let mut last = first.clone();
    for _ in 0..60 {
        last = now(trainer.window(&source, &mut Always)).expect("runs").expect("not abandoned");
    }
    assert!(last.loss < 0.2 * first.loss, "{} then {}", first.loss, last.loss);
    let mut evaluator = Evaluator::new(&plan, &layout, &Device::flex(), 8);
    let evaluation = now(evaluator.evaluate(&last.parameters, &source)).expect("runs");
    assert!(evaluation.accuracy > 0.95, "{evaluation:?}");
    assert!(evaluation.loss < 0.3, "{evaluation:?}");
}

#[test]
fn a_load_and_a_read_back_are_bit_exact() {
    let (mut trainer, layout) = trainer(&plan(small_cnn(), OptimizerSettings::default()));
    let mut values = initial_parameters(&layout, 99);
    values[0] = f32::MIN_POSITIVE;
    values[1] = -3.402_823e38;
    trainer.load(&values);
    assert_eq!(now(trainer.parameters()).expect("reads"), values);
}

#[test]
fn one_step_of_sgd_is_the_gradient_that_differences_give() {
    let layers = vec![Layer::Flatten {}, Layer::Linear { units: 3 }];
    let plan = plan(layers, OptimizerSettings::Sgd { learning_rate: 1.0 });
    let (mut trainer, layout) = trainer(&plan);
    let start = now(trainer.parameters()).expect("reads");
    // Three samples in a batch of eight: the padding must not dilute the mean.
    let batch = samples(3).batch(0);
    trainer.step(&batch).expect("steps");
    let stepped = now(trainer.parameters()).expect("reads");
    let mut evaluator = Evaluator::new(&plan, &layout, &Device::flex(), 8);
    let mut loss_at = |index: usize, by: f32| {
        let mut moved = start.clone();
        moved[index] += by;
        now(evaluator.evaluate(&moved, &samples(3))).expect("runs").loss
    };
    for index in (0..layout.elements()).step_by(5) {
        let by_differences = (loss_at(index, 1e-2) - loss_at(index, -1e-2)) / 2e-2;
        let by_step = start[index] - stepped[index];
        assert!((by_differences - by_step).abs() < 1e-3, "entry {index}: {by_differences} and {by_step}");
    }
}

#[test]
fn parameters_are_moved_between_two_steps() {
    struct Once(Option<Vec<f32>>);
    impl Pacer for Once {
        async fn between_steps(&mut self) -> Between {
            self.0.take().map_or(Between::GoOn, Between::Move)
        }
    }
    let (mut trainer, layout) = trainer(&plan(small_cnn(), OptimizerSettings::Sgd { learning_rate: 0.0 }));
    let start = now(trainer.parameters()).expect("loaded");
    let shift: Vec<f32> = (0..layout.elements()).map(|index| index as f32).collect();
    let moved = now(trainer.window(&samples(60), &mut Once(Some(shift)))).expect("runs").expect("whole");
    for (index, (before, after)) in start.iter().zip(&moved.parameters).enumerate() {
        assert_eq!(before + index as f32, *after, "entry {index}");
    }
    // What was moved still learns.
    let mut layers = small_cnn();
    layers.retain(|layer| !matches!(layer, Layer::Dropout { .. }));
    let plan = plan(layers, OptimizerSettings::Sgd { learning_rate: 0.1 });
    let window = |mut pacer: Once| now(self::trainer(&plan).0.window(&samples(60), &mut pacer)).expect("runs");
    assert_eq!(window(Once(Some(vec![0.0; layout.elements()]))), window(Once(None)));
}

#[test]
fn an_abandoned_window_gives_nothing() {
    struct Never;
    impl Pacer for Never {
        async fn between_steps(&mut self) -> Between {
            Between::Abandon
        }
    }
    let (mut trainer, _) = trainer(&plan(small_cnn(), OptimizerSettings::default()));
    assert_eq!(now(trainer.window(&samples(60), &mut Never)).expect("runs"), None);
}

#[test]
fn the_self_test_accepts_itself_and_refuses_zeros_nans_and_small_errors() {
    let (mut trainer, layout) = trainer(&plan(small_cnn(), OptimizerSettings::default()));
    let expected = now(trainer.self_test(5)).expect("runs");
    assert_eq!(compare(&expected, &expected, &layout, 5), Ok(()));
    let refused = |change: &dyn Fn(&mut crate::protocol::SelfTestAnswer)| {
        let mut answer = expected.clone();
        change(&mut answer);
        compare(&answer, &expected, &layout, 5).is_err()
    };
    assert!(refused(&|answer| answer.entries.fill(0.0)), "zeros");
    assert!(refused(&|answer| answer.norms[0] = f32::NAN), "NaN");
    assert!(refused(&|answer| answer.norms[1] *= 1.01), "a norm off by 1 %");
    assert!(refused(&|answer| answer.entries.truncate(3)), "too short");
    let again = now(trainer.self_test(6)).expect("runs");
    assert!(compare(&again, &expected, &layout, 5).is_err(), "another seed's answer");
}

#[test]
fn adam_in_one_pass_steps_as_burns_adam_does() {
    let settings = OptimizerSettings::Adam { learning_rate: 0.01, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8 };
    let layers = vec![Layer::Flatten {}, Layer::Linear { units: 5 }, Layer::Relu {}, Layer::Linear { units: 3 }];
    let plan = plan(layers, settings);
    let layout = infer_layout(&plan.model, &plan.data.sample_shape, plan.data.classes).expect("fits");
    let train = |optimizer: Optimizer| {
        let mut trainer = Trainer::new(&plan, &layout, &Device::flex());
        trainer.optimizer = optimizer;
        trainer.load(&initial_parameters(&layout, 5));
        for _ in 0..10 {
            now(trainer.window(&samples(30), &mut Always)).expect("trains");
        }
        now(trainer.parameters()).expect("reads")
    };
    let ours = train(Optimizer::new(&plan.worker.optimizer, &Device::flex()));
    let burns = train(Optimizer::Burn(Box::new(AdamConfig::new().with_epsilon(1e-8).init())));
    let furthest = ours.iter().zip(&burns).map(|(ours, burns)| (ours - burns).abs()).fold(0.0, f32::max);
    assert!(furthest < 2e-5, "{furthest} apart after 40 steps");
    assert!(ours.iter().zip(initial_parameters(&layout, 5)).any(|(after, before)| (after - before).abs() > 0.05));
}
