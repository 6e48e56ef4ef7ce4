import { appending, ownership } from "./testkit/appending.ts";
import { history } from "./testkit/history.ts";
import { usage } from "./testkit/usage.ts";
import { reading } from "./testkit/reading.ts";
import { keeping, sessions } from "./testkit/sessions.ts";
import type { LogUnderTest, Suite } from "./testkit/suite.ts";
import { waking } from "./testkit/waking.ts";

export type { LogUnderTest } from "./testkit/suite.ts";

export interface EventLogTestkit {
  /** The suite's name. */
  readonly name: string;
  /** A new, empty log. */
  create(): Promise<LogUnderTest>;
  /** Set where nothing survives `close`: the cases about restarts do not apply. */
  readonly volatile?: true;
  /** Of vitest, node:test or any other runner. */
  readonly describe: (name: string, body: () => void) => void;
  readonly it: (name: string, body: () => Promise<void>) => void;
}

/** The conformance suite of the port `EventLog`: a log that passes it can serve the engine. */
export function eventLogTestkit(kit: EventLogTestkit): void {
  kit.describe(`the event log: ${kit.name}`, () => {
    const suite: Suite = {
      volatile: kit.volatile ?? false,
      it: (name, body) =>
        kit.it(name, async () => {
          const subject = await kit.create();
          try {
            await body(subject);
          } finally {
            await subject.dispose();
          }
        }),
    };
    for (const part of [sessions, appending, ownership, reading, waking, keeping, history, usage])
      part(suite);
  });
}
