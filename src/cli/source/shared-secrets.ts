import { randomBytes } from "node:crypto";
import type { Catalog } from "../../catalog/port.ts";
import { isKept, KEPT, type KeptSecrets, type Values } from "../../sessions/secrets/kept.ts";

const KIND = "session_secrets";
/** No client has this tenant, so no client finds the documents. */
const TENANT = "";

/** Encrypted documents of a catalog, which every node reads. */
export function keepInCatalog(catalog: Catalog): KeptSecrets {
  return {
    async keep(values) {
      const id = randomBytes(16).toString("hex");
      const secret = JSON.stringify(values);
      await catalog.write(TENANT, [{ op: "create", kind: KIND, id, body: {}, secret }]);
      return Object.fromEntries(Object.keys(values).map((name) => [name, `${KEPT}${id}`]));
    },
    async read(name, reference) {
      const secret = await catalog.openSecret(TENANT, KIND, reference.slice(KEPT.length));
      const values = secret === undefined ? {} : (JSON.parse(secret) as Values);
      return Object.hasOwn(values, name) ? values[name] : undefined;
    },
    async forget(references) {
      for (const reference of new Set(references.filter(isKept))) {
        const id = reference.slice(KEPT.length);
        if (await catalog.find(TENANT, KIND, id))
          await catalog.write(TENANT, [{ op: "remove", kind: KIND, id }]);
      }
    },
  };
}

/** New values go to the first store. Those of sessions that came with the other store are read and removed there. */
export function keepInBoth(first: KeptSecrets, other: KeptSecrets): KeptSecrets {
  return {
    keep: (values) => first.keep(values),
    read: async (name, reference) =>
      (await first.read(name, reference)) ?? (await other.read(name, reference)),
    async forget(references) {
      await first.forget(references);
      await other.forget(references);
    },
  };
}
