import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { streamBody } from "../body.ts";
import type { Mount } from "../mount.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";
import { parseTarFile } from "../tar.ts";

/** The files of a session's sandbox; the sandbox itself sees to it that no path leads outside. */
export function mountFs(mount: Mount, { engine, limits, drafts }: Services): void {
  mount(operations.listEntries, async ({ c, query: { session, path } }) => {
    const files = await engine.files(session);
    return c.json(await files.list(path));
  });

  mount(operations.statFile, async ({ c, query: { session, path } }) => {
    const files = await engine.files(session);
    return c.json(await files.stat(path));
  });

  mount(operations.readFile, async ({ c, query: { session, path } }) => {
    const files = await engine.files(session);
    const { size, content } = await files.open(path);
    return c.body(Readable.toWeb(content) as ReadableStream<Uint8Array>, 200, {
      "content-type": "application/octet-stream",
      "content-length": String(size),
      // Whatever an agent wrote is never a page of this origin.
      "x-content-type-options": "nosniff",
      "content-disposition": "attachment",
    });
  });

  mount(operations.writeFile, async ({ c, query: { session, path } }) => {
    const files = await engine.files(session);
    return drafts.with(streamBody(c, limits.file), async (draft) => {
      await files.write(path, createReadStream(draft.path));
      return c.json({ path, bytesWritten: draft.size });
    });
  });

  mount(operations.deleteEntry, async ({ c, query: { session, path, recursive } }) => {
    const files = await engine.files(session);
    await files.remove(path, { recursive: recursive ?? false });
    return c.json({ path });
  });

  mount(operations.makeFolder, async ({ c, query: { session, path } }) => {
    const files = await engine.files(session);
    await files.mkdir(path);
    return c.json({ path });
  });

  mount(operations.moveFile, async ({ c, query: { session }, body: { from, to, overwrite } }) => {
    const files = await engine.files(session);
    await files.move(from, to, { overwrite: overwrite ?? false });
    return c.json({ from, to });
  });

  mount(operations.uploadBatch, async ({ c, query: { session, path } }) => {
    const files = await engine.files(session);
    const root = path.replace(/\/+$/, "") || "/";
    const paths: string[] = [];
    await drafts.with(streamBody(c, limits.file), async (draft) => {
      for (const entry of await parseTarFile(draft.path)) {
        const target = root === "." ? entry.path : `${root === "/" ? "" : root}/${entry.path}`;
        if (!entry.content) {
          await files.mkdir(target);
          continue;
        }
        const { start, size } = entry.content;
        const end = start + size - 1;
        await files.write(target, size === 0 ? "" : createReadStream(draft.path, { start, end }));
        paths.push(target);
      }
    });
    return c.json({ paths });
  });
}
