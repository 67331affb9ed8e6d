//! The canary: before an adapter gets any work it computes a few small cases whose results are known.
//!
//! Shader compilers have bugs that give wrong numbers without a word. Each case compares one kernel, or two that belong together, with the
//! reference function of its block on fixed numbers; all of them are one submit. An adapter that fails is refused with its name and the
//! numbers. Natively a pass is remembered ([`Memory`]); a refusal is not, so that nobody is refused on hearsay.

mod cases;
#[cfg(not(target_arch = "wasm32"))]
mod memory;

#[cfg(not(target_arch = "wasm32"))]
pub use memory::Memory;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use memory::cache_folder;

use crate::gpu::kernel::Pipelines;
use crate::gpu::{AdapterSummary, Choice, Gpu, Planner, Tensor, readback};
use crate::numerics::ops::nmse;
use crate::{Error, Result};

/// Largest NMSE of a case of real numbers. Sums in another order were seen within 1e-13.
const LIMIT: f64 = 1e-9;

/// What a case should give.
#[derive(Debug, Clone)]
enum Expected {
    /// Real numbers, compared by NMSE with [`LIMIT`].
    F32(Vec<f32>),
    /// Indices, compared exactly.
    U32(Vec<u32>),
}

/// A recorded case.
#[derive(Debug, Clone)]
struct Case {
    /// The kernels that it judges, joined by "with".
    name: &'static str,
    output: Tensor,
    expected: Expected,
}

impl Case {
    fn f32(name: &'static str, output: Tensor, expected: Vec<f32>) -> Self {
        Case { name, output, expected: Expected::F32(expected) }
    }

    fn u32(name: &'static str, output: Tensor, expected: Vec<u32>) -> Self {
        Case { name, output, expected: Expected::U32(expected) }
    }
}

/// Opens an adapter, and refuses it if the canary does not survive.
///
/// # Errors
/// As [`Gpu::open`] and [`check`].
pub async fn open(choice: &Choice) -> Result<Gpu> {
    let gpu = Gpu::open(choice).await?;
    examine(&gpu).await?;
    Ok(gpu)
}

/// Runs all cases, unless this adapter is known to have passed.
///
/// # Errors
/// As [`check`].
pub async fn examine(gpu: &Gpu) -> Result<()> {
    #[cfg(not(target_arch = "wasm32"))]
    {
        let memory = Memory::of_user();
        if memory.as_ref().is_some_and(|memory| memory.has_passed(&gpu.adapter)) {
            return Ok(());
        }
        check(gpu, &mut Pipelines::default()).await?;
        if let Some(memory) = memory {
            memory.remember(&gpu.adapter);
        }
        Ok(())
    }
    #[cfg(target_arch = "wasm32")]
    check(gpu, &mut Pipelines::default()).await
}

/// Runs all cases. Pipelines that are in `pipelines` already are used as they are.
///
/// # Errors
/// [`Error::Gpu`] with the adapter's name, the kernel and the numbers, if a case gives something else than it should.
pub async fn check(gpu: &Gpu, pipelines: &mut Pipelines) -> Result<()> {
    let (plan, cases) = gpu
        .checked("recording the canary", || {
            let mut planner = Planner::new(gpu, pipelines);
            let cases = cases::record(&mut planner)?;
            Ok((planner.finish(), cases))
        })
        .await?;
    plan.run(gpu);
    for case in cases {
        let problem = match &case.expected {
            Expected::F32(expected) => judge(&readback::f32s(gpu, &case.output).await?, expected),
            Expected::U32(expected) => differing(&readback::u32s(gpu, &case.output).await?, expected),
        };
        if let Some(problem) = problem {
            return Err(refusal(&gpu.adapter, case.name, &problem));
        }
    }
    Ok(())
}

fn refusal(adapter: &AdapterSummary, kernel: &str, problem: &str) -> Error {
    // A browser may tell neither.
    let name = if adapter.name.is_empty() { "the adapter" } else { adapter.name.as_str() };
    let driver = if adapter.driver.is_empty() { String::new() } else { format!(" (driver {})", adapter.driver) };
    Error::Gpu(format!("{name}{driver} is refused: {kernel} gives wrong numbers: {problem}; a newer driver may help"))
}

/// What is wrong with real numbers: their NMSE and the place that is furthest off.
fn judge(actual: &[f32], expected: &[f32]) -> Option<String> {
    let error = nmse(actual, expected);
    if error <= LIMIT {
        return None;
    }
    let off = |&i: &usize| (actual[i] - expected[i]).abs();
    let worst = (0..expected.len()).max_by(|a, b| off(a).total_cmp(&off(b)))?;
    Some(format!("NMSE {error:.1e}, element {worst} is {} instead of {}", actual[worst], expected[worst]))
}

fn differing(actual: &[u32], expected: &[u32]) -> Option<String> {
    let place = (0..expected.len()).find(|&i| actual[i] != expected[i])?;
    Some(format!("element {place} is {} instead of {}", actual[place], expected[place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel without a case would be trusted unseen.
    #[test]
    fn every_kernel_is_judged() {
        let gpu = pollster::block_on(Gpu::open(&Choice::default())).expect("GPU tests need an adapter");
        let mut pipelines = Pipelines::default();
        let mut planner = Planner::new(&gpu, &mut pipelines);
        let cases = cases::record(&mut planner).unwrap();
        let judged: Vec<&str> = cases.iter().flat_map(|case| case.name.split(" with ")).collect();
        let plan = planner.finish();
        let runs = |name: &str| plan.steps.iter().any(|step| step.label.split(' ').next() == Some(name));
        for kernel in crate::kernels::ALL {
            assert!(judged.contains(&kernel.name) && runs(kernel.name), "{} has no case", kernel.name);
        }
        pollster::block_on(check(&gpu, &mut Pipelines::default())).unwrap();
    }

    #[test]
    fn verdicts() {
        assert_eq!(judge(&[1.0, 2.0], &[1.0, 2.0]), None);
        let off = judge(&[1.0, 2.5], &[1.0, 2.0]).unwrap();
        assert!(off.contains("NMSE 5.0e-2") && off.contains("element 1 is 2.5 instead of 2"), "{off}");
        assert!(judge(&[f32::NAN, 2.0], &[1.0, 2.0]).is_some());
        assert_eq!(differing(&[1, 2], &[1, 2]), None);
        assert_eq!(differing(&[1, 3], &[1, 2]).unwrap(), "element 1 is 3 instead of 2");
    }
}
