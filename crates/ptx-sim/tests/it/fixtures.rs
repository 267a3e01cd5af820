//! The committed PTX, and a small bench that runs one kernel on typed buffers.

use ptx_sim::{
    Access, BlockSelection, Launch, LaunchReport, Machine, Outcome, Program, Target, Trap, syntax,
};

/// (name, text) of every fixture.
pub(crate) const FIXTURES: [(&str, &str); 12] = [
    ("basic.sm_80", include_str!("../ptx/basic.sm_80.ptx")),
    ("basic.sm_90a", include_str!("../ptx/basic.sm_90a.ptx")),
    ("basic.sm_100a", include_str!("../ptx/basic.sm_100a.ptx")),
    ("concurrency.sm_80", include_str!("../ptx/concurrency.sm_80.ptx")),
    ("concurrency.sm_90a", include_str!("../ptx/concurrency.sm_90a.ptx")),
    ("concurrency.sm_100a", include_str!("../ptx/concurrency.sm_100a.ptx")),
    ("faults.sm_90a", include_str!("../ptx/faults.sm_90a.ptx")),
    ("matrix.sm_80", include_str!("../ptx/matrix.sm_80.ptx")),
    ("matrix.sm_90a", include_str!("../ptx/matrix.sm_90a.ptx")),
    ("matrix.sm_100a", include_str!("../ptx/matrix.sm_100a.ptx")),
    ("wmma.sm_80", include_str!("../ptx/wmma.sm_80.ptx")),
    ("wmma.sm_100a", include_str!("../ptx/wmma.sm_100a.ptx")),
];

/// All fixtures compiled from one source.
pub(crate) fn variants(source: &str) -> impl Iterator<Item = &'static str> {
    FIXTURES.iter().filter(move |(name, _)| name.starts_with(source)).map(|(_, text)| *text)
}

/// One kernel on one machine.
pub(crate) struct Bench {
    pub(crate) machine: Machine,
    pub(crate) program: Program,
    kernel: String,
    params: Vec<Vec<u8>>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) budget: u64,
    pub(crate) threads: usize,
    pub(crate) blocks: BlockSelection,
}

impl Bench {
    pub(crate) fn new(ptx: &str, kernel: &str, grid: [u32; 3], block: [u32; 3]) -> Bench {
        let module = syntax::parse(ptx).unwrap();
        let program = Program::decode(&module, &[kernel]).unwrap();
        let mut machine = Machine::new(Target::for_arch("sm_90a").unwrap());
        machine.load(&program).unwrap();
        Bench {
            machine,
            program,
            kernel: kernel.to_owned(),
            params: Vec::new(),
            grid,
            block,
            shared_bytes: 0,
            budget: 50_000_000,
            threads: 1,
            blocks: BlockSelection::All,
        }
    }

    /// A writable buffer as the next parameter; gives its address.
    pub(crate) fn buffer<T: Plain>(&mut self, name: &str, data: &[T]) -> u64 {
        self.allocate(name, data, Access::ReadWrite)
    }

    /// A read-only buffer as the next parameter.
    pub(crate) fn input<T: Plain>(&mut self, name: &str, data: &[T]) -> u64 {
        self.allocate(name, data, Access::ReadOnly)
    }

    fn allocate<T: Plain>(&mut self, name: &str, data: &[T], access: Access) -> u64 {
        let bytes = to_bytes(data);
        let address = self.machine.allocate(name, bytes.len(), access).unwrap();
        self.machine.write(address, &bytes).unwrap();
        self.params.push(address.to_le_bytes().to_vec());
        address
    }

    pub(crate) fn scalar<T: Plain>(&mut self, value: T) {
        self.params.push(value.bytes());
    }

    pub(crate) fn raw(&mut self, bytes: Vec<u8>) {
        self.params.push(bytes);
    }

    pub(crate) fn run(&mut self) -> LaunchReport {
        let launch = Launch {
            kernel: &self.kernel,
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            params: &self.params,
            budget: self.budget,
            blocks: self.blocks.clone(),
            shared_poison: 0xff,
            cooperative: false,
            reversed: false,
            threads: self.threads,
        };
        self.machine.launch(&self.program, &launch)
    }

    /// Runs and insists on completion.
    pub(crate) fn complete(&mut self) -> LaunchReport {
        let report = self.run();
        assert_eq!(report.outcome, Outcome::Completed);
        report
    }

    /// Runs and insists on a trap.
    pub(crate) fn trap(&mut self) -> Trap {
        match self.run().outcome {
            Outcome::Trapped(trap) => trap,
            other => panic!("expected a trap, got {other:?}"),
        }
    }

    pub(crate) fn read<T: Plain>(&self, address: u64, len: usize) -> Vec<T> {
        let bytes = self.machine.read(address, len * size_of::<T>()).unwrap();
        bytes.chunks_exact(size_of::<T>()).map(T::from_bytes).collect()
    }
}

/// Numbers as little-endian bytes.
pub(crate) trait Plain: Copy {
    fn bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl Plain for $ty {
            fn bytes(self) -> Vec<u8> { self.to_le_bytes().to_vec() }
            fn from_bytes(bytes: &[u8]) -> Self { <$ty>::from_le_bytes(bytes.try_into().unwrap()) }
        }
    )*};
}
plain!(u8, u16, u32, i32, u64, i64, f32, f64);

pub(crate) fn to_bytes<T: Plain>(data: &[T]) -> Vec<u8> {
    data.iter().flat_map(|v| v.bytes()).collect()
}

/// Small deterministic values in [-2, 2).
pub(crate) fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as f32 / (1 << 22) as f32 - 2.0
        })
        .collect()
}
