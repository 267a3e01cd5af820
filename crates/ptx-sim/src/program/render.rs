//! Instructions back to text, for messages.

use crate::syntax::{Immediate, Instruction, Operand};

/// One line, without the semicolon.
pub(super) fn instruction(instruction: &Instruction) -> String {
    let mut out = String::new();
    if let Some(guard) = &instruction.guard {
        out.push_str(if guard.negated { "@!" } else { "@" });
        out.push_str(&guard.register);
        out.push(' ');
    }
    out.push_str(&instruction.op);
    for (index, operand) in instruction.operands.iter().enumerate() {
        out.push_str(if index == 0 { " " } else { ", " });
        push_operand(&mut out, operand);
    }
    out
}

fn push_operand(out: &mut String, operand: &Operand) {
    match operand {
        Operand::Name(name) => out.push_str(name),
        Operand::Not(name) => {
            out.push('!');
            out.push_str(name);
        }
        Operand::Offset(name, offset) => {
            out.push_str(name);
            out.push_str(&format!("{offset:+}"));
        }
        Operand::Number(Immediate::Int(value)) => out.push_str(&value.to_string()),
        Operand::Number(Immediate::F32(bits)) => out.push_str(&format!("0f{bits:08X}")),
        Operand::Number(Immediate::F64(bits)) => out.push_str(&format!("0d{bits:016X}")),
        Operand::Vector(list) => push_list(out, '{', list, '}'),
        Operand::List(list) => push_list(out, '(', list, ')'),
        Operand::Pair(a, b) => {
            push_operand(out, a);
            out.push('|');
            push_operand(out, b);
        }
        Operand::Address { base, offset, more } => {
            out.push('[');
            push_operand(out, base);
            if *offset != 0 {
                out.push_str(&format!("{offset:+}"));
            }
            for part in more {
                out.push_str(", ");
                push_operand(out, part);
            }
            out.push(']');
        }
    }
}

fn push_list(out: &mut String, open: char, list: &[Operand], close: char) {
    out.push(open);
    for (index, operand) in list.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        push_operand(out, operand);
    }
    out.push(close);
}
