import { files, paths } from "./testkit/files.ts";
import { limits, separation } from "./testkit/isolation.ts";
import { life } from "./testkit/life.ts";
import { commands, processes } from "./testkit/processes.ts";
import type { Capability, ProviderUnderTest, Suite } from "./testkit/suite.ts";

export type { Capability, ProviderUnderTest } from "./testkit/suite.ts";

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
