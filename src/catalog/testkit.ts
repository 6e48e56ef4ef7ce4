import { contents, secrets } from "./testkit/contents.ts";
import { documents, listing } from "./testkit/documents.ts";
import type { CatalogUnderTest, Suite } from "./testkit/suite.ts";

export type { CatalogUnderTest } from "./testkit/suite.ts";

export interface CatalogTestkit {
  /** The suite's name. */
  readonly name: string;
  /** A new, empty catalog. */
  create(): Promise<CatalogUnderTest>;
  /** Set where nothing survives `close`: the cases about restarts do not apply. */
  readonly volatile?: true;
  /** Of vitest, node:test or any other runner. */
  readonly describe: (name: string, body: () => void) => void;
  readonly it: (name: string, body: () => Promise<void>) => void;
}

/** The conformance suite of the port `Catalog`: a catalog that passes it can serve the dialects. */
export function catalogTestkit(kit: CatalogTestkit): void {
  kit.describe(`the catalog: ${kit.name}`, () => {
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
    for (const part of [documents, listing, secrets, contents]) part(suite);
  });
}
