"""Small applications that tests share; each is read in a minute.

- `smallest`: an event, a decider that only hears it, and events to wire a decider with.
- `bank`: an event and what follows from it, a deadline, a key that is forgotten, and a topic of others.
- `lessons`: an event and what follows from it, with a state of several types that is asked about.
- `small_shop`: an effect with an answer and what follows without one, a deadline, and a handler that can raise.
- `errands`: an effect, a deadline and a handler, each of which ends, answers or blocks as a test says.
- `market`: two services, an order in lines, and a compensation of the lines that were kept.
- `people`: an event and a state with personal texts.
- `fields`: an event and a state with a field of every type, and values of each.
- `planted`, made by `wired`: an order of which only the types matter, for tests of what follows from types.
"""
