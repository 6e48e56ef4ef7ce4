/** Whether something is still under way when the time is over; nothing is never late. */
export async function isLate(work: Promise<void> | undefined, patienceMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<true>((resolve) => {
    timer = setTimeout(() => resolve(true), patienceMs);
  });
  const first = await Promise.race([work, late]);
  clearTimeout(timer);
  return first === true;
}
