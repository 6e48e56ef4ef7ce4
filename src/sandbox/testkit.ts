import { commands } from "./testkit/commands.ts";
import { files } from "./testkit/files.ts";
import { life } from "./testkit/life.ts";
import { limits } from "./testkit/limits.ts";
import { paths } from "./testkit/paths.ts";
import { processes } from "./testkit/processes.ts";
import { separation } from "./testkit/separation.ts";
import type { Capability, ProviderUnderTest, Suite } from "./testkit/suite.ts";

export type { Capability, ProviderUnderTest } from "./testkit/suite.ts";

export interface SandboxTestkit {
  /** What the suite is called. */
  readonly name: string;
  /** A provider with nothing in it. */
  create(): Promise<ProviderUnderTest>;
  /** What the provider cannot do, each with its reason. */
  readonly declares?: Readonly<Partial<Record<Capability, string>>>;
  /** Of vitest, node:test or any other runner. */
  readonly describe: (name: string, body: () => void) => void;
  readonly it: {
    (name: string, body: () => Promise<void>): void;
    skip(name: string, body: () => void): void;
  };
}

/** The conformance suite of the port `SandboxProvider`: whatever passes it can run agents. */
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
