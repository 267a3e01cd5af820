//! The loop on a model that counts and charges: kills, interrupts, what is known from before.

mod card_time;
mod closing;
mod fixtures;
mod interrupts;
mod kills;
mod known;
mod looking_again;
mod many;
mod shortage;
mod telling;
