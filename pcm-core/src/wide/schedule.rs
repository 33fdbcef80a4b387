//! Steps of one rank in one operation, and what each of them waits for.

/// Memory that steps use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Buffer {
    /// What the caller gives.
    Send,
    /// Where the caller wants the result.
    Receive,
    /// Memory of the schedule.
    Scratch(usize),
}

/// Elements that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub buffer: Buffer,
    pub first: usize,
    pub count: usize,
}

impl Span {
    pub fn new(buffer: Buffer, first: usize, count: usize) -> Self {
        Self { buffer, first, count }
    }

    /// Elements of it, counted from its first.
    pub fn part(self, first: usize, count: usize) -> Self {
        Self {
            first: self.first + first,
            count,
            ..self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Send {
        to: u32,
        from: Span,
        /// Tells messages of one operation between two ranks apart.
        key: u32,
    },
    Receive {
        from: u32,
        into: Span,
        key: u32,
    },
    Copy {
        from: Span,
        into: Span,
    },
    /// `into` becomes `from` combined with `into`, in this order.
    Combine {
        from: Span,
        into: Span,
    },
}

/// The number of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At(pub usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub act: Act,
    /// Earlier steps that must be done before.
    pub after: Vec<At>,
}

/// What one rank does in one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub steps: Vec<Step>,
    /// Elements of each scratch memory.
    pub scratch: Vec<usize>,
}

impl Schedule {
    pub fn scratch(&mut self, count: usize) -> Span {
        self.scratch.push(count);
        Span::new(Buffer::Scratch(self.scratch.len() - 1), 0, count)
    }

    pub fn send(&mut self, to: u32, from: Span, key: u32, after: &[At]) -> At {
        self.push(Act::Send { to, from, key }, after)
    }

    pub fn receive(&mut self, from: u32, into: Span, key: u32, after: &[At]) -> At {
        self.push(Act::Receive { from, into, key }, after)
    }

    pub fn copy(&mut self, from: Span, into: Span, after: &[At]) -> At {
        self.push(Act::Copy { from, into }, after)
    }

    pub fn combine(&mut self, from: Span, into: Span, after: &[At]) -> At {
        self.push(Act::Combine { from, into }, after)
    }

    fn push(&mut self, act: Act, after: &[At]) -> At {
        self.steps.push(Step {
            act,
            after: after.to_vec(),
        });
        At(self.steps.len() - 1)
    }
}

/// Pieces of a long message that travel one after the other, so that a site passes the first on while others come.
pub fn segments(count: usize, at_most: usize) -> impl Iterator<Item = (usize, usize)> {
    let at_most = at_most.max(1);
    let number = count.div_ceil(at_most).max(1);
    (0..number).map(move |index| {
        let first = index * at_most;
        (first, at_most.min(count - first))
    })
}
