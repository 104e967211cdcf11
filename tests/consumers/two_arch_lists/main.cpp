int portable();
int hopper();

int main() { return portable() == 77 && hopper() == 77 ? 77 : 1; }
