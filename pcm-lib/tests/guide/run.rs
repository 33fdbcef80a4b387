use pcm::{ArrayOptions, AxisSpec, Session, SessionError, Step};

fn run(cells: u64, iterations: u64) -> Result<f64, SessionError> {
    let (mut session, (t, it)) = Session::start(|regions| {
        let axes = [AxisSpec::block(cells).with_halo(1)];
        let t = regions.array_of::<f64>("t", axes, ArrayOptions::default())?;
        regions[t].fill(1.0); // in a rank that joins, the data of the others takes its place
        Ok((t, regions.value_of("it", 0_u64)?))
    })?;
    let mut mine = t.bounds(&session, 0).unwrap_or_default();
    while session[it] < iterations {
        if session.iterate()? == Step::Changed {
            mine = t.bounds(&session, 0).unwrap_or_default();
        }
        for cell in &mut session[t][1..=(mine.end - mine.start) as usize] {
            *cell *= 0.5;
        }
        session[it] += 1;
    }
    Ok(session[t][1..=(mine.end - mine.start) as usize].iter().sum())
}
