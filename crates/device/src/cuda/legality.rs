//! Whether a launch is legal, checked before the driver is asked so that the answer has numbers.
//!
//! Arithmetic only; what the driver refuses all the same is in [`super::faults`].

use crate::execute::KernelLaunch;

const GRID_MAX: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];
/// Most blocks of a cluster, and most that every GPU with clusters can run.
const CLUSTER_MAX: u64 = 16;
const PORTABLE_CLUSTER_MAX: u64 = 8;
const AXES: [&str; 3] = ["x", "y", "z"];

/// What a GPU allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) threads_per_block: u64,
    /// Static and dynamic together, in bytes.
    pub(super) shared_per_block: u64,
    pub(super) clusters: bool,
    pub(super) cooperative: bool,
}

/// What a kernel was compiled for.
#[derive(Clone, Debug)]
pub(super) struct EntryFacts {
    /// Size of each parameter in bytes.
    pub(super) parameters: Vec<u64>,
    pub(super) threads_max: u32,
    /// Bytes of a block.
    pub(super) static_shared: u32,
    /// Zeros when the kernel demands none.
    pub(super) required_cluster: [u32; 3],
}

/// Why the launch is not legal, as a sentence.
pub(super) fn refusal(
    limits: &Limits,
    entry: &EntryFacts,
    launch: &KernelLaunch<'_>,
) -> Option<String> {
    extents(launch)
        .or_else(|| threads(limits, entry, launch))
        .or_else(|| shared(limits, entry, launch))
        .or_else(|| cluster(limits, entry, launch))
        .or_else(|| arguments(entry, launch))
}

/// Whether the launch needs leave for clusters that not every GPU can run.
pub(super) fn has_wide_cluster(launch: &KernelLaunch<'_>) -> bool {
    product(launch.cluster) > PORTABLE_CLUSTER_MAX
}

fn product(extents: [u32; 3]) -> u64 {
    extents.iter().fold(1u64, |product, extent| product.saturating_mul(u64::from(*extent)))
}

fn extents(launch: &KernelLaunch<'_>) -> Option<String> {
    let shapes = [
        ("grid", launch.grid, GRID_MAX),
        ("block", launch.block, BLOCK_MAX),
        ("cluster", launch.cluster, [CLUSTER_MAX as u32; 3]),
    ];
    shapes.iter().find_map(|(what, extents, most)| {
        let axis = (0..3).find(|&axis| extents[axis] == 0 || extents[axis] > most[axis])?;
        let (value, most) = (extents[axis], most[axis]);
        Some(format!("{what}.{} is {value}, must be 1 to {most}", AXES[axis]))
    })
}

fn threads(limits: &Limits, entry: &EntryFacts, launch: &KernelLaunch<'_>) -> Option<String> {
    let threads = product(launch.block);
    if threads > limits.threads_per_block {
        let most = limits.threads_per_block;
        return Some(format!("a block of {threads} threads exceeds the limit of {most}"));
    }
    (threads > u64::from(entry.threads_max)).then(|| {
        format!(
            "a block of {threads} threads exceeds the {} that `{}` can have with its registers and \
             launch bounds",
            entry.threads_max, launch.entry
        )
    })
}

fn shared(limits: &Limits, entry: &EntryFacts, launch: &KernelLaunch<'_>) -> Option<String> {
    let (fixed, dynamic) = (u64::from(entry.static_shared), u64::from(launch.shared_bytes));
    let most = limits.shared_per_block;
    (fixed + dynamic > most).then(|| {
        format!(
            "{fixed} bytes static and {dynamic} bytes dynamic shared memory exceed the {most} \
             bytes that one block may use"
        )
    })
}

fn cluster(limits: &Limits, entry: &EntryFacts, launch: &KernelLaunch<'_>) -> Option<String> {
    if launch.cooperative && !limits.cooperative {
        return Some("the GPU has no co-operative launches".to_owned());
    }
    let (asked, required) = (launch.cluster, entry.required_cluster);
    if asked != [1; 3] && required != [0; 3] && asked != required {
        let name = launch.entry;
        return Some(format!("`{name}` requires clusters of {required:?}, got {asked:?}"));
    }
    let cluster = if asked == [1; 3] && required != [0; 3] { required } else { asked };
    let blocks = product(cluster);
    if blocks > 1 && !limits.clusters {
        return Some("the GPU has no clusters".to_owned());
    }
    if blocks > CLUSTER_MAX {
        return Some(format!("a cluster of {blocks} blocks exceeds the limit of {CLUSTER_MAX}"));
    }
    let axis = (0..3).find(|&axis| !launch.grid[axis].is_multiple_of(cluster[axis].max(1)))?;
    let (grid, side) = (launch.grid[axis], cluster[axis]);
    Some(format!("grid.{} is {grid}, not a multiple of the cluster's {side}", AXES[axis]))
}

fn arguments(entry: &EntryFacts, launch: &KernelLaunch<'_>) -> Option<String> {
    let (name, takes, got) = (launch.entry, entry.parameters.len(), launch.args.len());
    if takes != got {
        return Some(format!("`{name}` takes {takes} parameters, got {got}"));
    }
    let pairs = entry.parameters.iter().zip(launch.args).enumerate();
    pairs
        .filter(|(_, (bytes, arg))| **bytes != arg.len() as u64)
        .map(|(index, (bytes, arg))| {
            format!("parameter {index} of `{name}` takes {bytes} bytes, got {}", arg.len())
        })
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        threads_per_block: 1024,
        shared_per_block: 227 << 10,
        clusters: true,
        cooperative: true,
    };

    fn entry() -> EntryFacts {
        EntryFacts {
            parameters: vec![8, 4],
            threads_max: 512,
            static_shared: 1024,
            required_cluster: [0; 3],
        }
    }

    fn launch(args: &[Vec<u8>]) -> KernelLaunch<'_> {
        KernelLaunch {
            entry: "kernel",
            grid: [4, 1, 1],
            block: [256, 1, 1],
            cluster: [1, 1, 1],
            shared_bytes: 0,
            cooperative: false,
            pdl: false,
            args,
            shared_poison: 0,
            reversed: false,
            sampled_blocks: None,
        }
    }

    #[test]
    fn legal_launches_pass() {
        let args = [vec![0; 8], vec![0; 4]];
        let base = launch(&args);
        for launch in [
            base,
            KernelLaunch { shared_bytes: 226 << 10, cooperative: true, ..base },
            KernelLaunch { cluster: [2, 1, 1], pdl: true, ..base },
            KernelLaunch { grid: [i32::MAX as u32, 65_535, 1], ..base },
        ] {
            assert_eq!(refusal(&LIMITS, &entry(), &launch), None, "{launch:?}");
        }
        assert!(has_wide_cluster(&KernelLaunch { cluster: [16, 1, 1], ..base }));
        assert!(!has_wide_cluster(&KernelLaunch { cluster: [8, 1, 1], ..base }));
    }

    #[test]
    fn each_refusal_is_a_sentence_with_numbers() {
        let (args, short, wide) =
            ([vec![0; 8], vec![0; 4]], [vec![0; 8]], [vec![0; 8], vec![0; 8]]);
        let base = launch(&args);
        let rows: [(KernelLaunch<'_>, &str); 10] = [
            (KernelLaunch { grid: [0, 1, 1], ..base }, "grid.x is 0, must be 1 to 2147483647"),
            (KernelLaunch { grid: [1, 65_536, 1], ..base }, "grid.y is 65536"),
            (KernelLaunch { block: [1, 1, 65], ..base }, "block.z is 65"),
            (KernelLaunch { block: [64, 32, 1], ..base }, "2048 threads exceeds the limit of 1024"),
            (KernelLaunch { block: [513, 1, 1], ..base }, "513 threads exceeds the 512 that"),
            (KernelLaunch { shared_bytes: 227 << 10, ..base }, "1024 bytes static and 232448"),
            (
                KernelLaunch { cluster: [3, 1, 1], ..base },
                "grid.x is 4, not a multiple of the clus",
            ),
            (KernelLaunch { cluster: [4, 8, 1], ..base }, "a cluster of 32 blocks"),
            (KernelLaunch { args: &short, ..base }, "takes 2 parameters, got 1"),
            (KernelLaunch { args: &wide, ..base }, "parameter 1 of `kernel` takes 4 bytes, got 8"),
        ];
        for (launch, expected) in rows {
            let why = refusal(&LIMITS, &entry(), &launch).unwrap_or_default();
            assert!(why.contains(expected), "{why:?} lacks {expected:?}");
        }
        let clustered = EntryFacts { required_cluster: [2, 1, 1], ..entry() };
        let odd = KernelLaunch { grid: [3, 1, 1], ..base };
        assert!(refusal(&LIMITS, &clustered, &odd).is_some());
        assert!(refusal(&Limits { clusters: false, ..LIMITS }, &clustered, &base).is_some());
    }
}
