import { files, paths } from "./testkit/files.ts";
import { limits, separation } from "./testkit/isolation.ts";
import { life } from "./testkit/life.ts";
import { asHostProvider, HERE_ONLY, openRunnerSubject, RUNNER_LACKS } from "./testkit/runner.ts";
import { commands, processes } from "./testkit/processes.ts";
import type { Dial } from "./remote/dial.ts";
import type { Capability, ProviderUnderTest, Suite } from "./testkit/suite.ts";

export type { Capability, ProviderUnderTest } from "./testkit/suite.ts";

export type { Dial } from "./remote/dial.ts";
export { asHostProvider };

export interface SandboxTestkit {
  /** The suite's name. */
  readonly name: string;
  /** Makes a provider without sandboxes. */
  create(): Promise<ProviderUnderTest>;
  /** Missing capabilities, each with its reason. */
  readonly declares?: Readonly<Partial<Record<Capability, string>>>;
  /** From vitest, node:test or any other runner. */
  readonly describe: (name: string, body: () => void) => void;
  readonly it: {
    (name: string, body: () => Promise<void>): void;
    skip(name: string, body: () => void): void;
  };
}

/** The conformance suite of the port `HostProvider`: a provider that passes it can run agents. */
export function sandboxTestkit(kit: SandboxTestkit): void {
  kit.describe(`the sandbox: ${kit.name}`, () => {
    const suite: Suite = {
      it(name, body, needs) {
        const reason = needs && kit.declares?.[needs];
        if (reason !== undefined) return kit.it.skip(`${name} (cannot: ${reason})`, () => {});
        kit.it(name, async () => {
          const subject = await kit.create();
          try {
            await body(subject);
          } finally {
            await subject.dispose();
          }
        });
      },
    };
    for (const part of [life, commands, files, paths, processes, limits, separation]) part(suite);
  });
}

export interface RunnerTestkit extends Pick<SandboxTestkit, "name" | "describe" | "it" | "declares"> {
  /** Opens a way to a runner. Each case has its own, and its sandboxes are removed after it. */
  open(): Promise<{ dial: Dial; close(): Promise<void> }>;
}

/** The same suite against any runner of the protocol in PROTOCOL.md: whoever passes it can have agents behind it. */
export function runnerTestkit({ open, declares, it, ...kit }: RunnerTestkit): void {
  sandboxTestkit({
    ...kit,
    it: withoutHere(it),
    declares: { ...RUNNER_LACKS, ...declares },
    async create() {
      const { dial, close } = await open();
      const subject = await openRunnerSubject(dial);
      return { ...subject, dispose: () => subject.dispose().finally(close) };
    },
  });
}

/** Leaves the cases out that only a provider of this machine can pass. */
export function withoutHere(it: SandboxTestkit["it"]): SandboxTestkit["it"] {
  const run = (name: string, body: () => Promise<void>): void =>
    HERE_ONLY.has(name) ? it.skip(`${name} (cannot: it is another machine)`, () => {}) : it(name, body);
  return Object.assign(run, { skip: it.skip.bind(it) });
}
