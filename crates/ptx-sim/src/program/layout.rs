//! Block order: flat code with labels to final program counters.
//!
//! Blocks are laid out in a reverse post-order that keeps loops together (successors that leave
//! the loop are visited first, so they come last). The executor then always runs the group of
//! lanes with the lowest program counter, which reconverges at the post-dominator in practice.

use crate::limits::LOOP_WORK_MAX;
use std::collections::HashMap;

use super::builder::Flat;
use super::ir::{Class, Inst, Op, Origin};

/// Code and origins, with branch targets as program counters.
pub(super) fn layout(flat: Vec<Flat>) -> (Vec<Inst>, Vec<Origin>) {
    let blocks = Blocks::split(flat);
    let order = blocks.order();
    blocks.emit(&order)
}

#[derive(Debug, Default)]
struct Block {
    code: Vec<(Inst, Origin)>,
    /// Block that control falls into, if it does.
    next: Option<usize>,
    /// Block of the final branch.
    target: Option<usize>,
}

#[derive(Debug)]
struct Blocks {
    blocks: Vec<Block>,
    of_label: HashMap<u32, usize>,
}

impl Blocks {
    fn split(flat: Vec<Flat>) -> Blocks {
        let mut blocks = vec![Block::default()];
        let mut of_label = HashMap::new();
        let mut ended = false;
        for item in flat {
            let last_is_empty = blocks.last().is_some_and(|b| b.code.is_empty());
            if (ended || matches!(item, Flat::Label(_))) && !last_is_empty {
                blocks.push(Block::default());
            }
            ended = false;
            match item {
                Flat::Label(label) => {
                    of_label.insert(label, blocks.len() - 1);
                }
                Flat::Code(inst, origin) => {
                    ended = matches!(inst.op, Op::Branch(_) | Op::Return | Op::Exit | Op::Trap);
                    if let Some(block) = blocks.last_mut() {
                        block.code.push((inst, origin));
                    }
                }
            }
        }
        let mut out = Blocks { blocks, of_label };
        out.link();
        out
    }

    /// Fills in `next` and `target`.
    fn link(&mut self) {
        let count = self.blocks.len();
        for (index, block) in self.blocks.iter_mut().enumerate() {
            let last = block.code.last().map(|(inst, _)| (&inst.op, inst.guard.is_some()));
            let falls = match last {
                Some((Op::Branch(_) | Op::Return | Op::Exit | Op::Trap, guarded)) => guarded,
                _ => true,
            };
            block.next = (falls && index + 1 < count).then_some(index + 1);
            if let Some((Op::Branch(label), _)) = last {
                block.target = self.of_label.get(label).copied();
            }
        }
    }

    fn successors(&self, block: usize) -> [Option<usize>; 2] {
        self.blocks.get(block).map_or([None, None], |b| [b.next, b.target])
    }

    /// Post-order by an iterative depth-first search; also the back edges found on the way.
    fn search(&self, first: impl Fn(usize) -> [Option<usize>; 2]) -> (Vec<usize>, Vec<[usize; 2]>) {
        let mut state = vec![0_u8; self.blocks.len()];
        let (mut post, mut back) = (Vec::new(), Vec::new());
        let mut stack = vec![(0, first(0), 0)];
        state[0] = 1;
        while let Some((block, successors, at)) = stack.last_mut() {
            let block = *block;
            if *at == 2 {
                state[block] = 2;
                post.push(block);
                stack.pop();
                continue;
            }
            let successor = successors[*at];
            *at += 1;
            let Some(successor) = successor else { continue };
            match state[successor] {
                0 => {
                    state[successor] = 1;
                    stack.push((successor, first(successor), 0));
                }
                1 => back.push([block, successor]),
                _ => {}
            }
        }
        (post, back)
    }

    /// Blocks in execution priority; unreachable ones are dropped.
    fn order(&self) -> Vec<usize> {
        let (_, back) = self.search(|b| self.successors(b));
        let loops = self.loops(&back);
        let first = |block: usize| {
            let [next, target] = self.successors(block);
            let leaves = |to: Option<usize>| {
                let innermost = loops.iter().find(|l| l[block]);
                to.is_some_and(|to| innermost.is_some_and(|l| !l[to]))
            };
            // The successor visited first comes last: leave the loop first, else prefer the
            // branch target, so that fall-through stays adjacent.
            if leaves(next) && !leaves(target) { [next, target] } else { [target, next] }
        };
        let (mut post, _) = self.search(first);
        post.reverse();
        post
    }

    /// Membership of natural loops, smallest first.
    fn loops(&self, back: &[[usize; 2]]) -> Vec<Vec<bool>> {
        let count = self.blocks.len();
        if back.len().saturating_mul(count) > LOOP_WORK_MAX {
            return Vec::new();
        }
        let mut predecessors = vec![Vec::new(); count];
        for block in 0..count {
            for successor in self.successors(block).into_iter().flatten() {
                predecessors[successor].push(block);
            }
        }
        let mut by_header: HashMap<usize, Vec<bool>> = HashMap::new();
        for [from, header] in back {
            let body = by_header.entry(*header).or_insert_with(|| vec![false; count]);
            body[*header] = true;
            let mut work = vec![*from];
            while let Some(block) = work.pop() {
                if !std::mem::replace(&mut body[block], true) {
                    work.extend(&predecessors[block]);
                }
            }
        }
        let mut loops: Vec<(usize, usize, Vec<bool>)> = by_header
            .into_iter()
            .map(|(header, body)| (body.iter().filter(|b| **b).count(), header, body))
            .collect();
        loops.sort_unstable_by_key(|(size, header, _)| (*size, *header));
        loops.into_iter().map(|(_, _, body)| body).collect()
    }

    fn emit(mut self, order: &[usize]) -> (Vec<Inst>, Vec<Origin>) {
        let mut start = vec![0_u32; self.blocks.len()];
        let (mut code, mut origins) = (Vec::new(), Vec::new());
        let mut targets: Vec<(usize, usize)> = Vec::new();
        for (place, index) in order.iter().enumerate() {
            let block = std::mem::take(&mut self.blocks[*index]);
            start[*index] = code.len() as u32;
            let origin = block.code.last().map(|(_, origin)| origin.clone());
            let count = block.code.len();
            for (at, (inst, origin)) in block.code.into_iter().enumerate() {
                if let (Some(target), true) = (block.target, at + 1 == count) {
                    targets.push((code.len(), target));
                }
                code.push(inst);
                origins.push(origin);
            }
            if let Some(next) = block.next.filter(|n| order.get(place + 1) != Some(n)) {
                targets.push((code.len(), next));
                code.push(Inst { op: Op::Branch(0), class: Class::Inserted, guard: None });
                origins.push(origin.unwrap_or_else(end_origin));
            } else if block.next.is_none() && (count == 0 || falls_off(code.last())) {
                code.push(Inst { op: Op::Return, class: Class::Inserted, guard: None });
                origins.push(origin.unwrap_or_else(end_origin));
            }
        }
        for (at, block) in targets {
            code[at].op = Op::Branch(start[block]);
        }
        (code, origins)
    }
}

fn end_origin() -> Origin {
    Origin { line: 0, location: None, text: "end of function".into() }
}

/// Whether control could run past the last instruction.
fn falls_off(last: Option<&Inst>) -> bool {
    last.is_none_or(|inst| {
        inst.guard.is_some() || !matches!(inst.op, Op::Branch(_) | Op::Return | Op::Exit | Op::Trap)
    })
}
