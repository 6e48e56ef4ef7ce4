import { readBody } from "../body.ts";
import type { Mount } from "../mount.ts";
import { operations } from "../operations.ts";
import type { Services } from "../services.ts";
import { parseTar } from "../tar.ts";

/** The files of a session's sandbox; the sandbox itself sees to it that no path leads outside. */
export function mountFs(mount: Mount, { engine, limits }: Services): void {
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
    const bytes = await files.read(path);
    return c.body(bytes as Uint8Array<ArrayBuffer>, 200, {
      "content-type": "application/octet-stream",
      // Whatever an agent wrote is never a page of this origin.
      "x-content-type-options": "nosniff",
      "content-disposition": "attachment",
    });
  });

  mount(operations.writeFile, async ({ c, query: { session, path } }) => {
    const files = await engine.files(session);
    const bytes = await readBody(c, limits.upload);
    await files.write(path, bytes);
    return c.json({ path, bytesWritten: bytes.length });
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
    const entries = parseTar(await readBody(c, limits.upload));
    const root = path.replace(/\/+$/, "") || "/";
    const paths: string[] = [];
    for (const entry of entries) {
      const target = root === "." ? entry.path : `${root === "/" ? "" : root}/${entry.path}`;
      if (entry.content) {
        await files.write(target, entry.content);
        paths.push(target);
      } else await files.mkdir(target);
    }
    return c.json({ paths });
  });
}
