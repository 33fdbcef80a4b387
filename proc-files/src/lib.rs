//! Reads `/proc`: processes and what they hold, control groups, and what the machine has. A process that has ended, a
//! file that may not be read and a line that is not as expected give nothing. Must never change or signal a process.

mod control_groups;
mod environment;
mod machine;
mod maps;
mod process;
mod stat;

pub use control_groups::{ControlGroup, OwnGroups};
pub use environment::Environment;
pub use machine::{CpuTicks, available_bytes, cpu_pressure_us, cpu_ticks, free_swap_bytes, memory_pressure_us};
pub use maps::{MappedFile, Mapping, mapped_files, mapping_at, mappings};
pub use process::{
    children, command_line, descendants, file_count, kernel_function, memory_bytes, pids, program_name, real_user,
    run_and_delay_ns, threads, tracer,
};
pub use stat::ProcessStat;
