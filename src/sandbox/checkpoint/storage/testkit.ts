import assert from "node:assert/strict";
import type { CheckpointStorage } from "../port.ts";

export interface CheckpointStorageTestkit {
  /** The suite's name. */
  readonly name: string;
  /** A new, empty storage, and a second one that sees the same objects. */
  create(): Promise<{ storage: CheckpointStorage; again: CheckpointStorage; dispose(): Promise<void> }>;
  /** Of vitest, node:test or any other runner. */
  readonly describe: (name: string, body: () => void) => void;
  readonly it: (name: string, body: () => Promise<void>) => void;
}

/** The conformance suite of the port `CheckpointStorage`. */
export function checkpointStorageTestkit(kit: CheckpointStorageTestkit): void {
  kit.describe(`the checkpoint storage: ${kit.name}`, () => {
    for (const [name, body] of Object.entries(CASES)) {
      kit.it(name, async () => {
        const { storage, again, dispose } = await kit.create();
        try {
          await body(storage, again);
        } finally {
          await dispose();
        }
      });
    }
  });
}

const CASES: Record<string, (storage: CheckpointStorage, again: CheckpointStorage) => Promise<void>> = {
  "gives back the bytes that were put": async (storage, again) => {
    const bytes = Uint8Array.from({ length: 70_000 }, (_, n) => (n * 7) % 256);
    await storage.put("packs/ab/one", bytes);
    assert.deepEqual(new Uint8Array((await again.get("packs/ab/one")) ?? []), bytes);
    await storage.put("empty", new Uint8Array());
    assert.equal((await again.get("empty"))?.length, 0);
  },
  "has nothing under a key that was never put": async (storage) => {
    assert.equal(await storage.get("packs/none"), undefined);
    assert.equal(await storage.has("packs/none"), false);
    assert.deepEqual(await storage.list("packs/"), []);
    await storage.delete("packs/none");
  },
  "replaces with put, and not with putIfAbsent": async (storage, again) => {
    await storage.put("a", text("first"));
    await storage.put("a", text("second"));
    assert.equal(await storage.putIfAbsent("a", text("third")), false);
    assert.equal(await readText(again, "a"), "second");
    assert.equal(await again.putIfAbsent("b", text("new")), true);
    assert.equal(await readText(storage, "b"), "new");
  },
  "lists by prefix, in order, past any page": async (storage) => {
    const keys = Array.from({ length: 25 }, (_, n) => `list/${String(n).padStart(3, "0")}`);
    for (const key of keys.toReversed()) await storage.put(key, text(key));
    await storage.put("list/01/deep/er", text("x"));
    await storage.put("listing", text("x"));
    assert.deepEqual(await storage.list("list/"), [...keys, "list/01/deep/er"].sort());
    assert.deepEqual(await storage.list("list/00"), keys.slice(0, 10));
    assert.deepEqual(await storage.list("lis"), [...keys, "list/01/deep/er", "listing"].sort());
  },
  "forgets what is deleted": async (storage, again) => {
    await storage.put("gone/x", text("x"));
    assert.equal(await again.has("gone/x"), true);
    await storage.delete("gone/x");
    assert.equal(await again.has("gone/x"), false);
    assert.deepEqual(await again.list("gone/"), []);
  },
  "takes every letter that a session's id may have": async (storage) => {
    const key = "sessions/A.b_c:d-9!e/ckpt_1";
    await storage.put(key, text("x"));
    assert.deepEqual(await storage.list("sessions/A.b_c:d-9!e/"), [key]);
    assert.equal(await readText(storage, key), "x");
  },
  "is whole under writers of the same key": async (storage, again) => {
    const texts = Array.from({ length: 8 }, (_, n) => String(n).repeat(100_000));
    await Promise.all(texts.map((body, n) => (n % 2 ? storage : again).put("same", text(body))));
    assert.ok(texts.includes(await readText(storage, "same")));
  },
};

function text(body: string): Uint8Array {
  return new TextEncoder().encode(body);
}

async function readText(storage: CheckpointStorage, key: string): Promise<string> {
  return new TextDecoder().decode(await storage.get(key));
}
